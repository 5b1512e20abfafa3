# {stem}.gp - made by kvreel from its database. Change what you like, then run
#     gnuplot {stem}.gp
# in this folder. The data, with more columns than are drawn: {stem}.tsv
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
bar(v) = column('bar') == 1 ? v : NaN # whose interval is drawn

set lmargin at screen {left}
set rmargin at screen {right}
set bmargin at screen {bottom}
set tmargin at screen {top}
set border 3 lw 0.8 lc rgb hair
set grid back lt 1 lw 0.5 lc rgb '#dddddd'
set tics nomirror out scale 0.5 textcolor rgb ink
unset key
