# {stem}.gp - made by kvreel. Change what you like, then run
#     gnuplot {stem}.gp
# in this folder. The data: {stem}.tsv, one row a method and path; panel 1 is this card, panel 2 the study.
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
