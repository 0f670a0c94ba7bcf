export const LIBRARIES = []; export const runLibrary = () => [];
