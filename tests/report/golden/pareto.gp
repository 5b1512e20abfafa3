# pareto.gp - written by kvreel from its database. To change the figure, edit this file and run
#     gnuplot pareto.gp
# in this folder. The data are in pareto.tsv, which also has columns that the figure does not show.
data = 'pareto.tsv'
set datafile separator tab
set datafile columnheaders
set encoding utf8

font = 'sans-serif,12'
label_font = 'sans-serif,9'
key_font = 'sans-serif,11'
size = 1.4
ink = '#222222'
faint_ink = '#757575'
hair = '#9a9a9a'
fade(c) = int(c) + 0x90000000
pale(c) = int(c) + 0x60000000
bar(v) = column('bar') == 1 ? v : NaN # draws only the intervals of points whose column bar is 1

set lmargin at screen 0.0752
set rmargin at screen 0.8210304
set bmargin at screen 0.15762788
set tmargin at screen 0.927796675
set border 3 lw 0.8 lc rgb hair
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
set tics nomirror out scale 0.5 textcolor rgb ink
unset key
set label 10001 'Compression against fidelity' at screen 0.02, 0.96318 left font 'sans-serif,15' textcolor rgb ink
set label 10011 'n = 3 to 4 per method; model nano, window 21; 1 method without a result omitted' at screen 0.02, 0.04452 left font 'sans-serif,9' textcolor rgb '#666666'
set label 10012 'a host' at screen 0.02, 0.01833 left font 'sans-serif,9' textcolor rgb '#666666'
set xlabel 'compression of the KV cache (BF16 bytes / nominal bytes)'
set xrange [0.845868479:6.30476266]
sx(v) = v
inx(v) = sx(v) < 0.845868479 ? 0.845868479 : sx(v) > 6.30476266 ? 6.30476266 : sx(v) # error bars are clipped at the edge of the plot
set logscale x 2
set xtics ('1' 1, '1.5' 1.5, '2' 2, '3' 3, '4' 4, '5' 5, '6' 6)
set ylabel 'SSIM against the BF16 rollout'
set yrange [0.244:1.0224]
sy(v) = v
iny(v) = sy(v) < 0.244 ? 0.244 : sy(v) > 1.0224 ? 1.0224 : sy(v) # error bars are clipped at the edge of the plot
set ytics ('0.3' 0.3, '0.4' 0.4, '0.5' 0.5, '0.6' 0.6, '0.7' 0.7, '0.8' 0.8, '0.9' 0.9, '1' 1)

# Labels: placed so that they do not overlap; x and y are data coordinates.
set label 1 'BF16' at 1.0273,1 left font label_font textcolor rgb ink
set label 2 '' . "'" . '' . "'" . '; system(' . "'" . 'x' . "'" . '' . "'" . '' . "'" . ') `y` "@z\' at 3.28735,0.55 left font label_font textcolor rgb faint_ink
set label 3 'RTN_INT4' at 3.28735,0.71 left font label_font textcolor rgb ink
set label 4 'RTN_K2_V4' at 4.10919,0.3 left font label_font textcolor rgb faint_ink
set label 5 'RTN_INT2 (3/4)' at 3.9982,0.422736 left font label_font textcolor rgb ink

# The key.
set label 20001 'Pareto front' at screen 0.85783, 0.89784 left font key_font textcolor rgb ink
set arrow 21001 from screen 0.83575, 0.89784 to screen 0.85341, 0.89784 nohead lw 1.5 lc rgb '#9a9a9a'
set label 20002 '#it' . "'" . 's' at screen 0.85783, 0.86359 left font key_font textcolor rgb ink
set label 21002 '' at screen 0.84458, 0.86359 point pt 7 ps size lc rgb '#FF87F0'
set label 20003 'RTN' at screen 0.85783, 0.82934 left font key_font textcolor rgb ink
set label 21003 '' at screen 0.84458, 0.82934 point pt 7 ps size lc rgb '#0072B2'
set label 20004 'bits per element' at screen 0.83575, 0.79510 left font key_font textcolor rgb ink
set label 20005 '2.5 to 3.5' at screen 0.85783, 0.76085 left font key_font textcolor rgb ink
set label 21005 '' at screen 0.84458, 0.76085 point pt 9 ps size lc rgb '#777777'
set label 20006 '3.5 to 4.5' at screen 0.85783, 0.72660 left font key_font textcolor rgb ink
set label 21006 '' at screen 0.84458, 0.72660 point pt 13 ps size lc rgb '#777777'
set label 20007 '4.5 to 6' at screen 0.85783, 0.69236 left font key_font textcolor rgb ink
set label 21007 '' at screen 0.84458, 0.69236 point pt 5 ps size lc rgb '#777777'
set label 20008 '10 or more' at screen 0.85783, 0.65811 left font key_font textcolor rgb ink
set label 21008 '' at screen 0.84458, 0.65811 point pt 7 ps size lc rgb '#777777'

$front << EOD
x	y
1	1
3.2	0.71
5.333	0.4
EOD

set terminal svg size 1000,623 dynamic noenhanced background '#ffffff' font font fontscale 1.333
set output 'pareto.svg'
plot \
    $front using (sx($1)):(sy($2)) with fsteps lw 1.5 lc rgb hair notitle, \
    data using (bar(sx(column('x')))):(sy(column('y'))):(iny(column('y_lo'))):(iny(column('y_hi'))):(pale(column('colour'))) \
        with yerrorbars pt -1 ps 0 lw 0.8 lc rgb variable notitle, \
    data using (bar(sx(column('x')))):(sy(column('y'))):(inx(column('x_lo'))):(inx(column('x_hi'))):(pale(column('colour'))) \
        with xerrorbars pt -1 ps 0 lw 0.8 lc rgb variable notitle, \
    data using (sx(column('x'))):(column('front') == 0 ? sy(column('y')) : NaN):(column('point_type')):(fade(column('colour'))) \
        with points pt variable ps size lc rgb variable notitle, \
    data using (sx(column('x'))):(column('front') == 1 ? sy(column('y')) : NaN):(column('point_type')):(column('colour')) \
        with points pt variable ps size lc rgb variable notitle

set terminal pngcairo size 1000,623 noenhanced background '#ffffff' font font
set output 'pareto.png'
replot
unset output
