set palette defined (0 '#440154', 1 '#3e4989', 2 '#26828e', 3 '#35b779', 4 '#b5de2b', 5 '#fde725')
set lmargin at screen {left}
set rmargin at screen {right}
set bmargin at screen {bottom}
set tmargin at screen {top}
unset grid
set border 0
set ytics font 'sans-serif,{label}'
set xrange [{x_lo}:{x_hi}]
set yrange [{y_lo}:-0.5]
set cbrange [0:*]
