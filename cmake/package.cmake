# What `cmake --install`, the Debian package and, with CAIRN_STATIC, the tarball have; scripts/package.sh makes both.
# Included once, behind the program's target.
include(GNUInstallDirs)
set(papers "${CMAKE_INSTALL_DOCDIR}")
if(CAIRN_STATIC)
  set(papers .)  # where who unpacks the tarball looks
  install(FILES packaging/copyright DESTINATION packaging)
else()
  install(FILES packaging/copyright DESTINATION "${papers}")
  install(FILES examples/systemd/cairn.service DESTINATION lib/systemd/system)
endif()
install(TARGETS cairn RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES models/guide/guide.gguf models/calibration/calibration.txt DESTINATION "${CMAKE_INSTALL_DATADIR}/cairn")  # `cairn chat` without a file, `cairn imatrix` without a text
# Laid out as here, so that links between pages lead somewhere.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE NOTICE VERSION DESTINATION "${papers}")
install(DIRECTORY docs examples DESTINATION "${papers}")
find_program(CAIRN_DPKG_QUERY dpkg-query)  # the libraries are packages of Debian, which have their licences
if(CAIRN_DPKG_QUERY AND CMAKE_GENERATOR STREQUAL "Ninja")
  install(CODE "execute_process(COMMAND \"${CMAKE_SOURCE_DIR}/scripts/licenses.sh\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${papers}/licenses\" \"${CMAKE_BINARY_DIR}\" COMMAND_ERROR_IS_FATAL ANY)")
endif()

set(CPACK_PACKAGE_NAME cairn)
set(CPACK_PACKAGE_CONTACT "The Cairn authors <cairn-authors@users.noreply.invalid>")  # Debian's form wants an address
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Server for GGUF language models")
set(CPACK_STRIP_FILES ON)
if(CAIRN_STATIC)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
  set(CPACK_PACKAGE_FILE_NAME "cairn-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
else()
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Cairn opens language models in GGUF files, runs them on the processor with
kernels of its own, and answers many clients at once.
.
It speaks the protocols of OpenAI (chat, completions, Responses, embeddings),
Anthropic, Ollama and llama.cpp's server, and has a page for browsers.
The package has a systemd unit, which is not started by itself, and a small
demonstration model: try `cairn chat`.")
  set(CPACK_DEBIAN_PACKAGE_SECTION net)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # what the program is linked with, by dpkg-shlibdeps
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
endif()
include(CPack)
