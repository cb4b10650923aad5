# SPDX-License-Identifier: Apache-2.0
# What find_package(weir) gives: weir::client with its public headers, for programs without LibTorch.
#   cmake --install build/release --component client --prefix DIR
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(TARGETS weir_client weir_client_core weir_rpc weir_rpc_core weir_proto weir_proto_grpc
                weir_grpc_status weir_sharding weir_common
        EXPORT weirTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/include/weir
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client FILES_MATCHING PATTERN "*.h")
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${package_dir} COMPONENT client)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/weirConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/weirConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT client)
