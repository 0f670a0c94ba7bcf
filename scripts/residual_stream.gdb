# Prints the first four numbers of each row that a norm as wide as the model reads: what the residual stream holds before
# each block, in order. For x86-64 and a program that is not stripped; docs/debugging.md shows what to compare it with.
# usage: gdb -batch -ex 'set $width = 64' -x scripts/residual_stream.gdb --args build/release/cairn logits FILE --tokens 1 --last -t 1 --gpu-layers 0
# $width: the file's embedding_length (cairn inspect FILE)
rbreak RowReductions<.*>::rms_norm
commands
silent
if $rdx == $width
  x/4fw $rdi
end
continue
end
rbreak RowReductions<.*>::layer_norm
commands
silent
if $rcx == $width
  x/4fw $rdi
end
continue
end
run
