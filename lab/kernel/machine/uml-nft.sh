# The kernel of the test cluster's nodes: User-Mode Linux with nf_tables. Sourced by run.sh, which sets `cache`, after uml.sh.

# Says why it is not possible, and fails; prints nothing when it is. Installs and builds what is missing.
uml-nft_missing() {
  packages_missing cluster || return 1
  if ! node "$project/lab/cluster/kernel/main.ts" "$cache" >"$job/uml-nft"; then
    echo "it cannot be built, see above"
    return 1
  fi
  uml_surroundings_missing
}

uml-nft_start() {
  local folder
  folder=$(<"$job/uml-nft")
  uml_boot "${titles[uml-nft]}" "$folder/linux" "$folder/modules"
}
