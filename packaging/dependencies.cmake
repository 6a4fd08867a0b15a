# The libraries that Heddle's targets are linked with: for the build, and for the package that it installs.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# oneDNN, libjpeg-turbo's two interfaces and ONNX's messages by header and library: Debian's own CMake files also demand
# OpenCL's headers, which are not used here, and lack ONNX's definitions.
function(heddle_import target header library)
  if(TARGET ${target})
    return()
  endif()
  string(MAKE_C_IDENTIFIER ${library} id)
  find_path(HEDDLE_${id}_INCLUDE ${header} REQUIRED)
  find_library(HEDDLE_${id}_LIBRARY ${library} REQUIRED)
  mark_as_advanced(HEDDLE_${id}_INCLUDE HEDDLE_${id}_LIBRARY)
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${HEDDLE_${id}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${HEDDLE_${id}_INCLUDE})
endfunction()
heddle_import(DNNL::dnnl dnnl.hpp dnnl)
heddle_import(libjpeg-turbo::turbojpeg turbojpeg.h turbojpeg)
heddle_import(libjpeg-turbo::jpeg jpeglib.h jpeg)
heddle_import(protobuf::libprotobuf google/protobuf/message.h protobuf)
heddle_import(onnx::proto onnx/onnx_pb.h onnx_proto)
set_target_properties(onnx::proto PROPERTIES
  INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx" INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
