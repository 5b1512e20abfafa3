# {stem}.gp - made by kvreel from its database. Change what you like, then run
#     gnuplot {stem}.gp
# in this folder. The data, with more columns than are drawn: {stem}.tsv
data = '{stem}.tsv'
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

set lmargin at screen {left}
set rmargin at screen {right}
set bmargin at screen {bottom}
set tmargin at screen {top}
set border 3 lw 0.8 lc rgb hair
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
set tics nomirror out scale 0.5 textcolor rgb ink
set key at screen 0.83, 0.9 left top Left reverse samplen 1 spacing 1.3 textcolor rgb ink font 'sans-serif,11'
