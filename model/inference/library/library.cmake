# The library of inference for other programs: libisobar, with its headers and what CMake needs to find it.
set_target_properties(isobar_model_base isobar_model_plan isobar_model_nets isobar_model_backend_cpu isobar_model_inference
                      PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(isobar_library SHARED ${CMAKE_CURRENT_LIST_DIR}/isobar.cpp)
set_target_properties(isobar_library PROPERTIES OUTPUT_NAME isobar EXPORT_NAME isobar VERSION ${PROJECT_VERSION} SOVERSION 0
                      CXX_VISIBILITY_PRESET hidden LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/isobar.map)
target_compile_definitions(isobar_library PRIVATE ISOBAR_VERSION="${PROJECT_VERSION}")
target_link_libraries(isobar_library PRIVATE isobar_model_inference)
target_link_options(isobar_library PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/isobar.map -Wl,--no-undefined)
include(GNUInstallDirs)
target_include_directories(isobar_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS isobar_library EXPORT isobar_library LIBRARY COMPONENT inference NAMELINK_COMPONENT inference)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/isobar.h ${CMAKE_CURRENT_LIST_DIR}/isobar.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/isobar COMPONENT inference)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/isobar.f90 DESTINATION share/isobar COMPONENT inference)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/isobarConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/isobar COMPONENT inference)
install(EXPORT isobar_library NAMESPACE isobar:: FILE isobarTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/isobar COMPONENT inference)
