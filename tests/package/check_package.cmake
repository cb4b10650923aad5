# SPDX-License-Identifier: Apache-2.0
# Installs the client's package from BUILD into SCRATCH, builds the example SOURCE against it, and runs it
# where no coordinator is: it must say so.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --component client --prefix ${SCRATCH}/installed)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/build -G Ninja -DCMAKE_PREFIX_PATH=${SCRATCH}/installed
    -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
execute_process(COMMAND ${SCRATCH}/build/client_only 127.0.0.1:1 nobody 1
                RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result EQUAL 0 OR NOT errors MATCHES "127.0.0.1:1")
  message(FATAL_ERROR "expected an error that names the address, got ${result}: ${errors}")
endif()
