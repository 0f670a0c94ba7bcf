# What `cmake --install` and the Debian package (`cpack -G DEB` in the build's folder) have. Included once, behind the
# program's target.
include(GNUInstallDirs)
install(TARGETS cairn RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES models/guide/guide.gguf DESTINATION "${CMAKE_INSTALL_DATADIR}/cairn")  # `cairn chat` without a file
install(FILES examples/systemd/cairn.service DESTINATION lib/systemd/system)
# Laid out as here, so that links between pages lead somewhere.
install(FILES README.md NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cairn)
set(CPACK_PACKAGE_CONTACT "The authors of Cairn <cairn@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Server for GGUF language models")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # what the program is linked with, by dpkg-shlibdeps
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
include(CPack)
