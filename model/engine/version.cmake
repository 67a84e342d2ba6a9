#Run at every build : writes isobar_version.h when the commit or the state of the tree has changed.
execute_process(COMMAND git - C ${SOURCE} rev - parse-- short = 12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND git - C ${SOURCE} status-- porcelain-- untracked -
                        files = no OUTPUT_VARIABLE changes ERROR_QUIET) if (NOT commit) set(commit "unknown")
        endif() set(dirty 0) if (changes) set(dirty 1) endif()
            set(text
                "#pragma once\n#define ISOBAR_COMMIT \"${commit}\"\n#define ISOBAR_DIRTY ${dirty}\n#define "
                "ISOBAR_BUILD_TYPE \"${TYPE}\"\n") set(old "") if (EXISTS ${OUT}) file(READ ${OUT} old)
                endif() if (NOT old STREQUAL text) file(WRITE $ { OUT } "${text}") endif()
