# {stem}.gp - written by kvreel from its database. To change the figure, edit this file and run
#     gnuplot {stem}.gp
# in this folder. The data are in {stem}.tsv, which also has columns that the figure does not show.
data = '{stem}.tsv'
set datafile separator tab
set datafile columnheaders
set encoding utf8

font = 'sans-serif,{font}'
label_font = 'sans-serif,{label}'
key_font = 'sans-serif,{key}'
size = {size}
ink = '#222222'
faint_ink = '#757575'
hair = '#9a9a9a'
fade(c) = int(c) + 0x90000000
pale(c) = int(c) + 0x60000000
bar(v) = column('bar') == 1 ? v : NaN # draws only the intervals of points whose column bar is 1

set lmargin at screen {left}
set rmargin at screen {right}
set bmargin at screen {bottom}
set tmargin at screen {top}
set border 3 lw 0.8 lc rgb hair
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
set tics nomirror out scale 0.5 textcolor rgb ink
unset key
