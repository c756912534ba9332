#!/usr/bin/env python3
"""Writes doubles.tsv and timestamps.tsv beside itself: how Python prints numbers, and so how the established formats do.

doubles.tsv: a JSON literal that is not an integer, a tab, repr(float(literal)).
timestamps.tsv: an RFC 3339 instant, a tab, repr of the double nearest to its exact Unix time.
Same seed, same files; run it only to extend the vectors.
"""
import datetime
import fractions
import math
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
r = random.Random(2)


def literals():
    yield from ["0.0", "-0.0", "0e0", "-0E-7", "1.0", "10.0", "1e0", "1E+0", "5e-324", "4.9e-324", "2.4703282292062328e-324",
                "2.2250738585072014e-308", "2.225073858507201e-308", "1.7976931348623157e308", "1.7976931348623158e308",
                "9007199254740993.0", "9007199254740992.9", "4503599627370497.5", "1e23", "9.999999999999999e22", "1e22",
                "0.1", "0.30000000000000004", "2e-3", "1e-7", "123456.789e-3", "9e15", "9.5e15", "99999999999999999.0"]
    for e in range(-30, 31):
        for m in ("1", "9", "1.5", "9.999999999999999", "1.2345678901234567", "-7.25"):
            yield f"{m}e{e}"
    for e in range(-325, 309):
        yield f"1e{e}"
    n = 0
    while n < 1500:
        x = struct.unpack("<d", struct.pack("<Q", r.getrandbits(64)))[0]
        if math.isfinite(x):
            n += 1
            yield f"{x:.17e}"
    for _ in range(800):
        yield f"{r.choice('-  ').strip()}{r.getrandbits(r.randrange(1, 70))}.{r.getrandbits(r.randrange(1, 60))}"
    for _ in range(800):
        yield f"{r.randrange(1, 10)}.{r.getrandbits(r.randrange(1, 80))}e{r.randrange(-40, 40)}"
    for p in range(-60, 70):  # neighbours of powers of two, where intervals are uneven
        for x in (math.nextafter(2.0 ** p, 0), 2.0 ** p, math.nextafter(2.0 ** p, math.inf)):
            yield f"{x:.20e}"
    for _ in range(500):  # exact ties between two spellings of the same length: the even digit wins
        yield f"{r.randrange(2 ** 50, 2 ** 51)}.{r.choice(['25', '75'])}"
        yield f"{r.randrange(2 ** 45, 2 ** 53)}.{r.choice(['125', '375', '625', '875', '5', '0625'])}"


def instants():
    epoch = datetime.datetime(1970, 1, 1)
    def line(t, fraction, offset=0):
        local = t + datetime.timedelta(minutes=offset)
        zone = "Z" if offset == 0 else f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
        exact = fractions.Fraction((t - epoch) // datetime.timedelta(seconds=1))
        if fraction:
            exact += fractions.Fraction(int(fraction), 10 ** len(fraction))
        # Fraction to float rounds once, to nearest even.
        return f"{local.isoformat()}{'.' + fraction if fraction else ''}{zone}\t{exact.numerator / exact.denominator!r}"
    for t in (epoch, datetime.datetime(2026, 8, 17), datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30, 23, 59, 59),
              datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(2106, 2, 7, 6, 28, 15),
              datetime.datetime(2106, 2, 7, 6, 28, 16)):
        for f in ("", "0", "5", "000", "123", "120", "1234567", "123456789", "999999", "9999999", "99999999999999999999",
                  "000001", "00001", "0000001", "99999", "999990", "5" + "0" * 40 + "1", "000000000000000000000000001"):
            yield line(t, f)
    for _ in range(1500):
        t = epoch + datetime.timedelta(seconds=r.randrange(-10 ** 9, 5 * 10 ** 9))
        digits = r.randrange(0, 13)
        yield line(t, "".join(r.choice("0123456789") for _ in range(digits)), r.choice([0, 0, 0, 60, -330, 1439]))


(HERE / "doubles.tsv").write_text("".join(f"{l}\t{float(l)!r}\n" for l in dict.fromkeys(literals())))
(HERE / "timestamps.tsv").write_text("".join(f"{l}\n" for l in instants()))
