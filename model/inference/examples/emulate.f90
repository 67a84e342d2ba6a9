! emulate_fortran CHECKPOINT BATCH < rows of numbers: the net's forecast of each row, as text that loses no bit
program emulate
  use isobar
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  character(4096) :: checkpoint, word
  type(isobar_options) :: options
  type(isobar_shape) :: a, b
  type(c_ptr) :: net
  real(c_float), allocatable :: in(:, :), more(:, :), out(:, :), row(:)
  integer :: batch, ended, inputs, n
  if (command_argument_count() /= 2) then
    write (error_unit, '(a)') 'usage: emulate_fortran CHECKPOINT BATCH < rows of numbers'
    stop 64
  end if
  call get_command_argument(1, checkpoint)
  call get_command_argument(2, word)
  read (word, '(i10)', iostat=ended) batch
  if (ended /= 0) then
    write (error_unit, '(a)') 'BATCH is no whole number'
    stop 64
  end if
  options = isobar_options(1, int(batch, c_int64_t))
  if (isobar_open(checkpoint, options, net) /= isobar_ok) call fail()
  a = isobar_input_shape(net)
  b = isobar_output_shape(net)
  inputs = int(a%channels*a%height*a%width)
  allocate (row(inputs), in(inputs, 1024))
  n = 0
  do
    read (*, *, iostat=ended) row
    if (ended /= 0) exit
    if (n == size(in, 2)) then
      allocate (more(inputs, 2*n))
      more(:, :n) = in
      call move_alloc(more, in)
    end if
    n = n + 1
    in(:, n) = row
  end do
  if (.not. is_iostat_end(ended)) then
    write (error_unit, '(a, i0, a)') 'row ', n + 1, ' is no row of numbers'
    stop 2
  end if
  allocate (out(b%channels*b%height*b%width, n))
  if (isobar_run(net, int(n, c_int64_t), in, out) /= isobar_ok) call fail()
  write (*, '(es16.8)') out
  call isobar_close(net)
contains
  subroutine fail()
    write (error_unit, '(a)') isobar_text()
    stop 2
  end subroutine
end program
