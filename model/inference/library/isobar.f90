! isobar.h for Fortran: compile this file with your program and link with libisobar.
!
!   use isobar
!   type(c_ptr) :: net
!   if (isobar_open("runs/emulator", isobar_options(1, 4096), net) /= isobar_ok) print *, isobar_text()
!   code = isobar_run(net, n, in, out)          ! real(c_float) in(inputs, n), out(outputs, n)
module isobar
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: isobar_ok = 0, isobar_failed = 1, isobar_bad_input = 2, isobar_out_of_memory = 3

  type, bind(c) :: isobar_options
    integer(c_int32_t) :: threads = 0
    integer(c_int64_t) :: batch = 0
  end type

  type, bind(c) :: isobar_shape
    integer(c_int64_t) :: channels, height, width
  end type

  interface
    integer(c_int) function isobar_open_c(checkpoint, options, net) bind(c, name="isobar_open")
      import :: c_int, c_char, c_ptr, isobar_options
      character(kind=c_char), intent(in) :: checkpoint(*)
      type(isobar_options), intent(in) :: options
      type(c_ptr), intent(out) :: net
    end function
    subroutine isobar_close(net) bind(c)
      import :: c_ptr
      type(c_ptr), value :: net
    end subroutine
    type(isobar_shape) function isobar_input_shape(net) bind(c)
      import :: c_ptr, isobar_shape
      type(c_ptr), value :: net
    end function
    type(isobar_shape) function isobar_output_shape(net) bind(c)
      import :: c_ptr, isobar_shape
      type(c_ptr), value :: net
    end function
    integer(c_int) function isobar_run(net, n, in, out) bind(c)
      import :: c_int, c_ptr, c_int64_t, c_float
      type(c_ptr), value :: net
      integer(c_int64_t), value :: n
      real(c_float), intent(in) :: in(*)
      real(c_float), intent(out) :: out(*)
    end function
    integer(c_int) function isobar_jacobian(net, in, rows, which, jacobian) bind(c)  ! which: from 0
      import :: c_int, c_ptr, c_int64_t, c_float
      type(c_ptr), value :: net
      real(c_float), intent(in) :: in(*)
      integer(c_int64_t), value :: rows
      integer(c_int64_t), intent(in) :: which(*)
      real(c_float), intent(out) :: jacobian(*)  ! (inputs, rows)
    end function
    type(c_ptr) function isobar_last_error() bind(c)
      import :: c_ptr
    end function
    integer(c_size_t) function isobar_strlen(text) bind(c, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  integer(c_int) function isobar_open(checkpoint, options, net)
    character(*), intent(in) :: checkpoint
    type(isobar_options), intent(in) :: options
    type(c_ptr), intent(out) :: net
    net = c_null_ptr
    isobar_open = isobar_open_c(trim(checkpoint)//c_null_char, options, net)
  end function

  function isobar_text() result(text)  ! of this thread's last failure
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: at
    integer :: i, n
    at = isobar_last_error()
    n = int(isobar_strlen(at))
    allocate (character(n) :: text)
    call c_f_pointer(at, letters, [n])
    do i = 1, n
      text(i:i) = letters(i)
    end do
  end function
end module
