! emulate_fortran CHECKPOINT BATCH < rows of numbers: the net's forecast of each row, as text that loses no bit
program emulate
  use isobar
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  character(4096) :: checkpoint, word
  type(isobar_options) :: options
  type(isobar_shape) :: a, b
  type(c_ptr) :: net
  real(c_float), allocatable :: in(:, :), out(:, :), row(:)
  integer :: batch, ended, inputs, n
  call get_command_argument(1, checkpoint)
  call get_command_argument(2, word)
  read (word, *) batch
  options = isobar_options(1, int(batch, c_int64_t))
  if (isobar_open(checkpoint, options, net) /= isobar_ok) call fail()
  a = isobar_input_shape(net)
  b = isobar_output_shape(net)
  inputs = int(a%channels*a%height*a%width)
  allocate (row(inputs), in(inputs, 65536), out(b%channels*b%height*b%width, 65536))
  n = 0
  do
    read (*, *, iostat=ended) row
    if (ended /= 0 .or. n == 65536) exit
    n = n + 1
    in(:, n) = row
  end do
  if (isobar_run(net, int(n, c_int64_t), in, out) /= isobar_ok) call fail()
  write (*, '(es16.8)') out(:, :n)
  call isobar_close(net)
contains
  subroutine fail()
    write (error_unit, '(a)') isobar_text()
    stop 2
  end subroutine
end program
