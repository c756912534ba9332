# Everything a fresh machine with Rust, Python and Node needs is done by these targets.
.PHONY: help demo test soak bench lint fmt doc ci clean

help:
	@echo "make demo   build, start a gateway on SQLite, play real harness runs through it (Ctrl-C stops it)"
	@echo "make test   all tests (about half an hour on 2 cores)"
	@echo "make soak   the long figures: load, latency, 1,000 kills, ten minutes of chaos; written to docs/soak.md"
	@echo "make bench  benchmarks (criterion)"
	@echo "make ci     what CI runs"

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

soak:
	@scripts/soak.sh

bench:
	cargo bench --workspace

fmt:
	cargo fmt --all

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	cargo xtask tidy

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

ci:
	@.ci/run

clean:
	cargo clean
	rm -rf data
