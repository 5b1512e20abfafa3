# {stem}.gp - written by kvreel. To change the figure, edit this file and run
#     gnuplot {stem}.gp
# in this folder. The data are in {stem}.tsv, one row per method and path. Panel 1 has the times measured on
# a GPU, panel 2 the times that the study published.
data = '{stem}.tsv'
set datafile separator tab
set datafile columnheaders
set datafile missing 'NaN'
set encoding utf8
font = 'sans-serif,{font}'
small = 'sans-serif,{label}'
ink = '#222222'
set border 3 lw 0.8 lc rgb '#9a9a9a'
set tics nomirror out scale 0.5 textcolor rgb ink font small
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
unset key
