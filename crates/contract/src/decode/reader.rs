//! What every payload needs: a cursor with limits, ids, optional values, and objects whose fields are fixed.

use crate::error::{DecodeError, Fault};
use crate::id::Checked;
use crate::json::scan::{Scan, Scanner};
use crate::limits::Limits;
use crate::text::{Str, Text};

/// A strict cursor that knows the limits.
pub(crate) struct Reader<'a, 'l> {
    pub(crate) scan: Scanner<'a>,
    pub(crate) limits: &'l Limits,
}

impl<'a, 'l> Reader<'a, 'l> {
    pub(crate) fn new(text: &'a str, limits: &'l Limits) -> Self {
        Self { scan: Scanner::new(text, limits.json_depth), limits }
    }

    /// Reads an id, a name or a code.
    #[inline]
    pub(crate) fn id<T: Checked<'a>>(&mut self) -> Scan<T> {
        if let Some(text) = self.scan.visible_string() {
            return T::visible(text, self.limits.id_bytes).map_err(DecodeError::from);
        }
        self.id_far()
    }

    #[inline(never)]
    fn id_far<T: Checked<'a>>(&mut self) -> Scan<T> {
        let text = self.scan.string()?.to_text();
        T::checked(Str::from(text), self.limits.id_bytes).map_err(DecodeError::from)
    }

    /// Reads free text.
    #[inline]
    pub(crate) fn text(&mut self) -> Scan<Text<'a>> {
        self.scan.string().map(|raw| raw.to_text())
    }

    /// Reads a string of which only one value is allowed.
    pub(crate) fn constant(&mut self, value: &'static str) -> Scan<()> {
        self.choice(value, |text| (text == value).then_some(()))
    }

    /// Reads a string of a closed set.
    pub(crate) fn choice<T>(&mut self, allowed: &'static str, parse: impl Fn(&str) -> Option<T>) -> Scan<T> {
        let text = self.scan.string()?.to_text();
        parse(&text).ok_or_else(|| DecodeError::new(Fault::NotAllowed { allowed }))
    }

    /// Reads a value that may also be null.
    #[inline]
    pub(crate) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Scan<T>) -> Scan<Option<T>> {
        if self.scan.null() { Ok(None) } else { read(self).map(Some) }
    }

    /// Reads with the cursor at `start`, then puts it back.
    pub(crate) fn at<T>(&mut self, start: usize, read: impl FnOnce(&mut Self) -> Scan<T>) -> Scan<T> {
        let here = self.scan.jump(start);
        let value = read(self);
        self.scan.jump(here);
        value
    }
}

#[cold]
#[inline(never)]
pub(crate) fn missing(name: &'static str) -> DecodeError {
    DecodeError::new(Fault::MissingField { name })
}

#[cold]
#[inline(never)]
pub(crate) fn unknown(key: &str) -> DecodeError {
    DecodeError::new(Fault::UnknownField).at(key)
}

#[cold]
#[inline(never)]
pub(crate) fn repeated(key: &str) -> DecodeError {
    DecodeError::new(Fault::RepeatedField).at(key)
}

/// Reads an object whose fields are fixed, and binds each to a variable. Fields are `required`, `optional` (absent
/// gives `None`; the reader gives an `Option`) or `bare` (required, and the reader names itself in errors).
///
/// The usual spelling (the contract's order, no space before the colon) is compared key by key; what is left over goes
/// through the general loop, which takes any order.
macro_rules! fields {
    ($reader:ident, { $($name:ident = $text:literal : $need:ident $read:expr),+ $(,)? }) => {
        $(let mut $name = None;)+
        let mut more = $reader.scan.open(b'{', b'}', "an object")?;
        $(
            if more && $reader.scan.take(concat!("\"", $text, "\":")) {
                $name = match $read {
                    Ok(value) => Some(value),
                    Err(error) => return Err(fields!(@error $need error, $text)),
                };
                more = $reader.scan.more(b'}')?;
            }
        )+
        while more {
            let key = $reader.scan.key()?.to_text();
            match &*key {
                $(
                    $text => {
                        if $name.is_some() {
                            return Err($crate::decode::reader::repeated(&key));
                        }
                        $name = match $read {
                            Ok(value) => Some(value),
                            Err(error) => return Err(fields!(@error $need error, $text)),
                        };
                    }
                )+
                _ => return Err($crate::decode::reader::unknown(&key)),
            }
            more = $reader.scan.more(b'}')?;
        }
        $(let $name = fields!(@value $need $name, $text);)+
    };
    (@error bare $error:ident, $text:literal) => { $error };
    (@error $need:ident $error:ident, $text:literal) => { $error.at($text) };
    (@value optional $name:ident, $text:literal) => { $name.flatten() };
    (@value $need:ident $name:ident, $text:literal) => {
        match $name {
            Some(value) => value,
            None => return Err($crate::decode::reader::missing($text)),
        }
    };
}
pub(crate) use fields;
