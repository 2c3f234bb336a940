"""Batch norm, residual addition and ReLU in passes over memory that are counted, in Triton.

Maps lie in memory as rows of channels (m, c), m = images · height · width. With T the bytes of one map, they are::

    forward     statistics   read x                                  1 T
                normalise    read x [, r], write out                 2 T  [+ 1 T]
    backward    sums         read d [, d′], x                        2 T  [+ 1 T]      no residual
                             read d [, d′], out, x, write g          4 T  [+ 1 T]      residual
                gradient     read d [, d′], x, write dx              3 T  [+ 1 T]      no residual
                             read g, x, write dx                     3 T               residual

where d and d′ are the gradients of the one or two uses of the output and g is what the ReLU leaves of their sum.
Between the passes stand two small kernels that add up the parts of the statistics and of the sums.
"""
