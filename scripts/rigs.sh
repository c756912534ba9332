# Sourced by crash.sh and chaos.sh: builds a gateway with failpoints, which is never the one that is released, and the rigs
# that do it harm. They are in $rig.
cargo build --locked --package causeway-cli --package causeway-crash \
    --features causeway-cli/failpoints,causeway-crash/failpoints
# Away from the place where the next build puts the gateway that has none.
target="${CARGO_TARGET_DIR:-$PWD/target}"
rig="$target/crash"
mkdir -p "$rig"
for program in causeway crash-rig crash-check crash-archive chaos-rig; do
    install "$target/debug/$program" "$rig/$program"
done
