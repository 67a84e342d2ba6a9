# Graph partitions by METIS, if installed.
find_path(METIS_INCLUDE metis.h)
find_library(METIS_LIBRARY metis)
if(METIS_INCLUDE AND METIS_LIBRARY)
  target_link_libraries(isobar_model_nets PUBLIC ${METIS_LIBRARY})
  set_source_files_properties(model/nets/graph/partition.cpp PROPERTIES COMPILE_DEFINITIONS ISOBAR_WITH_METIS SKIP_UNITY_BUILD_INCLUSION ON)
endif()
