# gnuplot models/nano/loss.gp   (from the repository root): loss.csv -> loss.svg
set terminal svg size 640,360 font "sans,12" background "white"
set output "models/nano/loss.svg"
set datafile separator ","
set logscale y
set xlabel "clips"
set ylabel "mean squared error of the clean frames"
set key top right
set grid
plot for [c=4:6] "models/nano/loss.csv" using 2:c with lines lw 1.5 title columnheader(c)
