# Debian's kernel in an emulated machine. Sourced by run.sh.

# Says why it is not possible, and fails; prints nothing when it is.
qemu_missing() {
  echo "it is not built yet"
  return 1
}
