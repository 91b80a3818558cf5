//! Values that nobody wrote down: drawn anew for each cell, from its number, so that a failure can be
//! repeated.

use witrpc::codec::Codec;

/// SplitMix64.
pub(crate) struct Draw(u64);

/// A call that gives back what it gets.
pub(crate) struct Echo {
    /// The method's line or name.
    pub(crate) line: &'static str,
    /// Its argument as JSON.
    pub(crate) argument: String,
    /// The result as JSON, where the codec loses a part of the value.
    pub(crate) expected: String,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn int(&mut self) -> i32 {
        // All sizes of varints.
        let bits = self.below(33);
        (self.next() as i32) >> (32 - bits).min(31)
    }

    /// A number that every reader prints alike.
    fn double(&mut self) -> f64 {
        f64::from(self.int() >> 8) / 8.0
    }

    /// Text of all widths of UTF-8, often longer than what MessagePack compresses from.
    fn text(&mut self) -> String {
        const LETTERS: [char; 12] = [
            'a',
            'Z',
            '0',
            ' ',
            '"',
            '\\',
            '<',
            '\n',
            '\u{e9}',
            '\u{20ac}',
            '\u{1f600}',
            '\u{7f}',
        ];
        let length = 1 + self.below(120);
        (0..length)
            .map(|_| LETTERS[self.below(12) as usize])
            .collect()
    }

    fn list(&mut self, mut item: impl FnMut(&mut Self) -> String) -> String {
        let count = 1 + self.below(40);
        let items: Vec<_> = (0..count).map(|_| item(self)).collect();
        format!("[{}]", items.join(","))
    }

    fn date(&mut self) -> String {
        let (y, m, d) = (
            1900 + self.below(200),
            1 + self.below(12),
            1 + self.below(28),
        );
        format!("{y}-{m:02}-{d:02}")
    }

    fn time(&mut self) -> String {
        let (h, m, s) = (self.below(24), self.below(60), self.below(60));
        format!("{h:02}:{m:02}:{s:02}.{:03}", 1 + 10 * self.below(99))
    }

    fn base64(&mut self) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let groups = 1 + self.below(100);
        (0..4 * groups)
            .map(|_| char::from(DIGITS[self.below(64) as usize]))
            .collect()
    }

    fn guid(&mut self) -> String {
        uuid::Uuid::from_u128(u128::from(self.next()) << 64 | u128::from(self.next())).to_string()
    }

    pub(crate) fn person(&mut self, codec: Codec) -> String {
        let home = match self.below(3) {
            0 => "null".to_owned(),
            _ => format!(
                "{{\"Street\":{},\"Zip\":{}}}",
                quoted(&self.text()),
                self.int()
            ),
        };
        let tags = self.list(|draw| quoted(&draw.text()));
        let (x, y) = (self.int(), self.int());
        let height = match self.below(3) {
            0 => "null".to_owned(),
            _ => self.double().to_string(),
        };
        format!(
            "{{\"Name\":{},\"Age\":{},\"Favourite\":{},\"Home\":{home},\"Tags\":{tags},\
             \"Scores\":{{\"x\":{x},\"\u{e9}\":{y}}},\"Photo\":\"{}\",\"Born\":\"{}T{}{}\",\
             \"Height\":{height}}}",
            quoted(&self.text()),
            self.int(),
            [0, 1, 7][self.below(3) as usize],
            self.base64(),
            self.date(),
            self.time(),
            kind(codec),
        )
    }

    /// One call of every kind of value.
    pub(crate) fn echoes(&mut self, codec: Codec) -> Vec<Echo> {
        let mut all = Vec::new();
        let mut add = |line: &'static str, argument: String| {
            all.push(Echo {
                line,
                expected: argument.clone(),
                argument,
            });
        };
        let draw = self;
        let text = draw.text();
        add("Echo", quoted(&text));
        add("EchoAsync", quoted(&text.chars().rev().collect::<String>()));
        add("Echo", quoted(&text.repeat(200)));
        add("Big", (draw.next() as i64).to_string());
        add("UInt", (draw.next() as u32).to_string());
        add("ULong", draw.next().to_string());
        add("Short", (draw.next() as i16).to_string());
        add("SByte", (draw.next() as i8).to_string());
        add("Byte", (draw.next() as u8).to_string());
        add(
            "Letter",
            quoted(["\u{20ac}", "x", "<"][draw.below(3) as usize]),
        );
        add("Single", (draw.double() / 512.0).floor().to_string());
        add("Double", draw.double().to_string());
        add("Money", format!("{}.{:02}", draw.int(), draw.below(100)));
        add("Id", format!("\"{}\"", draw.guid()));
        add(
            "When",
            format!("\"{}T{}{}\"", draw.date(), draw.time(), kind(codec)),
        );
        let offset = if codec == Codec::Protobuf {
            "+00:00"
        } else {
            "-03:30"
        };
        add(
            "Offset",
            format!("\"{}T{}{offset}\"", draw.date(), draw.time()),
        );
        add(
            "Span",
            format!("\"-{}.{}0000\"", 1 + draw.below(9000), draw.time()),
        );
        add("Day", format!("\"{}\"", draw.date()));
        add("Clock", format!("\"{}0000\"", draw.time()));
        add(
            "Link",
            format!("\"https://example.test/{}?q\"", draw.below(1000)),
        );
        add("Paint", draw.int().to_string());
        add("Maybe", draw.int().to_string());
        add("MaybeLong", draw.next().cast_signed().to_string());
        add("MaybeId", format!("\"{}\"", draw.guid()));
        add("MaybeBool", "true".into());
        add("MaybeDouble", draw.double().to_string());
        add("MaybePaint", "1".into());
        add("Maybe", "null".into());
        add("Blob", format!("\"{}\"", draw.base64()));
        add("Ints", draw.list(|draw| draw.int().to_string()));
        add("Doubles", draw.list(|draw| draw.double().to_string()));
        add("Find", draw.list(|draw| draw.int().to_string()));
        add("Names", draw.list(|draw| quoted(&draw.text())));
        let start = draw.int() >> 1;
        add("Set", format!("[{},{},{}]", start, start + 7, start - 9));
        add("Many", draw.list(|draw| draw.int().to_string()));
        let (ints, more) = (
            draw.list(|draw| draw.int().to_string()),
            draw.list(|draw| draw.int().to_string()),
        );
        add(
            "Map",
            format!("{{\"a\":{ints},{}:{more}}}", quoted(&draw.text())),
        );
        add(
            "ByNumber",
            format!("{{\"{}\":{}}}", draw.int(), quoted(&draw.text())),
        );
        add(
            "Kvp",
            format!(
                "{{\"Key\":{},\"Value\":{}}}",
                quoted(&draw.text()),
                draw.int()
            ),
        );
        add(
            "Tup",
            format!(
                "{{\"Item1\":{},\"Item2\":{}}}",
                draw.int(),
                quoted(&draw.text())
            ),
        );
        if codec != Codec::Json {
            // .NET's JSON writes a ValueTuple as an empty object.
            add(
                "Pair",
                format!(
                    "{{\"Item1\":{},\"Item2\":{}}}",
                    draw.int(),
                    quoted(&draw.text())
                ),
            );
        }
        if codec != Codec::Protobuf {
            add(
                "Ver",
                format!("\"{}.{}.3\"", draw.below(100), draw.below(100)),
            );
            add("Strings", format!("[null,{}]", quoted(&draw.text())));
            add("Ints", "[]".into());
        }
        add("Describe", draw.person(codec));
        add("Describe", "null".into());
        add(
            "People",
            format!("[{},{}]", draw.person(codec), draw.person(codec)),
        );
        all
    }
}

/// MessagePack makes every DateTime UTC, protobuf none.
fn kind(codec: Codec) -> &'static str {
    if codec == Codec::Protobuf { "" } else { "Z" }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether two texts are the same JSON, numbers digit by digit.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    a == b || read(a).is_some_and(|a| Some(a) == read(b))
}
