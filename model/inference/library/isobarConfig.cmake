# find_package(isobar) -> isobar::isobar, the shared library with its headers; ISOBAR_FORTRAN_MODULE, a source file.
include("${CMAKE_CURRENT_LIST_DIR}/isobarTargets.cmake")
get_target_property(_isobar_include isobar::isobar INTERFACE_INCLUDE_DIRECTORIES)
get_filename_component(ISOBAR_FORTRAN_MODULE "${_isobar_include}/../share/isobar/isobar.f90" ABSOLUTE)
