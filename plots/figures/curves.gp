# {stem}.gp - written by kvreel from its database. To change the figure, edit this file and run
#     gnuplot {stem}.gp
# in this folder. The data are in {stem}.tsv, with one block per method; comments there name the columns.
data = '{stem}.tsv'
set datafile separator tab
set encoding utf8
font = 'sans-serif,{font}'
ink = '#222222'
hair = '#9a9a9a'
set border 3 lw 0.8 lc rgb hair
set tics nomirror out scale 0.5 textcolor rgb ink
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
unset key
