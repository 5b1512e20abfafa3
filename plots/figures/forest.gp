# claims.gp - written by kvreel from a ledger and a database. To change the figure, edit this file and run
#     gnuplot claims.gp
# in this folder. The data, in the units of the metrics, are in claims.tsv, one claim per row. x is the
# claim's mean difference divided by its margin; a positive x agrees with the claim. The axis is linear
# near 0 and logarithmic far from it.
data = 'claims.tsv'
set datafile separator tab
set datafile columnheaders
set datafile missing 'NaN'
set encoding utf8
font = 'sans-serif,{font}'
ink = '#222222'
s(u) = sgn(u) * log10(1 + abs(u))
in(u) = s(u) < -{reach} ? -{reach} : s(u) > {reach} ? {reach} : s(u)
set lmargin at screen {left}
set rmargin at screen {right}
set bmargin at screen {bottom}
set tmargin at screen {top}
set border 1 lw 0.8 lc rgb '#9a9a9a'
set tics nomirror out scale 0.5 textcolor rgb ink
set ytics scale 0 font 'sans-serif,{label}'
set xtics font 'sans-serif,{label}'
set xlabel 'mean difference, in margins; right of the band: as the claim says' font font textcolor rgb ink
set grid xtics back lt 1 lw 0.5 lc rgb '#dddddd'
unset key
set xrange [-{reach}:{reach}]
set yrange [{rows}.5:0.5]
set object 1 rectangle from s(-1), graph 0 to s(1), graph 1 behind fillcolor rgb '#e6eef5' fillstyle solid noborder
set arrow 1 from 0, graph 0 to 0, graph 1 nohead back lw 0.8 lc rgb '#9a9a9a'
