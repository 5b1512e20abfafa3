# pareto.gp - made by kvreel from its database. Change what you like, then run
#     gnuplot pareto.gp
# in this folder. The data, with more columns than are drawn: pareto.tsv
data = 'pareto.tsv'
set datafile separator tab
set datafile columnheaders
set encoding utf8

font = 'sans-serif,12'
label_font = 'sans-serif,9'
size = 1.4
ink = '#222222'
faint_ink = '#757575'
hair = '#9a9a9a'
fade(c) = int(c) + 0x90000000

set lmargin at screen 0.078
set rmargin at screen 0.808
set bmargin at screen 0.1625
set tmargin at screen 0.9125
set border 3 lw 0.8 lc rgb hair
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
set tics nomirror out scale 0.5 textcolor rgb ink
set key at screen 0.83, 0.9 left top Left reverse samplen 1 spacing 1.3 textcolor rgb ink font 'sans-serif,11'
set label 10001 'Compression against fidelity' at screen 0.02, 0.955 left font 'sans-serif,15' textcolor rgb ink
set label 10002 'n = 3 to 4 per method; model nano, window 21; 1 method without a result left out' at screen 0.02, 0.052 left font 'sans-serif,9' textcolor rgb '#666666'
set label 10003 'a host' at screen 0.02, 0.02 left font 'sans-serif,9' textcolor rgb '#666666'
set xlabel 'compression of the KV cache (BF16 bytes / nominal bytes)'
set xrange [0.845868479:6.30476266]
set logscale x 2
set xtics ('1' 1, '1.5' 1.5, '2' 2, '3' 3, '4' 4, '5' 5, '6' 6)
set ylabel 'SSIM against the BF16 rollout'
set yrange [0.244:1.0224]
set ytics ('0.3' 0.3, '0.4' 0.4, '0.5' 0.5, '0.6' 0.6, '0.7' 0.7, '0.8' 0.8, '0.9' 0.9, '1' 1)

# Names: placed so that they do not cover each other; x and y are data.
set label 1 'BF16' at 1.0279,1 left font label_font textcolor rgb ink
set label 2 '' . "'" . '' . "'" . '; system(' . "'" . 'x' . "'" . '' . "'" . '' . "'" . ') `y` "@z\' at 3.28928,0.55 left font label_font textcolor rgb faint_ink
set label 3 'RTN_INT4' at 3.28928,0.71 left font label_font textcolor rgb ink
set label 4 'RTN_K2_V4' at 4.11159,0.3 left font label_font textcolor rgb faint_ink
set label 5 'RTN_INT2 (3/4)' at 3.91858,0.422703 left font label_font textcolor rgb ink

$front << EOD
x	y
1	1
3.2	0.71
5.333	0.4
EOD

set terminal svg size 1000,640 dynamic noenhanced background '#ffffff' font font fontscale 1.333
set output 'pareto.svg'
plot \
    $front using 1:2 with fsteps lw 1.5 lc rgb hair title 'Pareto front', \
    data using (column('x')):(column('front') == 0 ? column('y') : NaN):(column('point_type')):(fade(column('colour'))) \
        with points pt variable ps size lc rgb variable notitle, \
    data using (column('x')):(column('front') == 1 ? column('y') : NaN):(column('point_type')):(column('colour')) \
        with points pt variable ps size lc rgb variable notitle, \
    keyentry with points pt 7 ps size lc rgb '#AA4499' title '#it' . "'" . 's', \
    keyentry with points pt 7 ps size lc rgb '#0072B2' title 'RTN', \
    keyentry with points pt 0 lc rgb '#ffffff' title ' ', \
    keyentry with points pt 0 lc rgb '#ffffff' title 'bits per scalar', \
    keyentry with points pt 9 ps size lc rgb '#777777' title '2.5 to 3.5', \
    keyentry with points pt 13 ps size lc rgb '#777777' title '3.5 to 4.5', \
    keyentry with points pt 5 ps size lc rgb '#777777' title '4.5 to 6', \
    keyentry with points pt 7 ps size lc rgb '#777777' title '10 or more'

set terminal pngcairo size 1000,640 noenhanced background '#ffffff' font font
set output 'pareto.png'
replot
unset output
