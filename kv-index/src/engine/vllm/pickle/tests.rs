//! Digests of what CPython's own `pickle.dumps(block, protocol=5)` gives.

use sha2::{Digest, Sha256};

use super::*;
use crate::engine::block_digest::BlockDigest;
use crate::engine::vllm::encode::{self, KeyForm};
use crate::engine::vllm::keys::{AdapterKey, Keys};

const PARENT: [u8; 32] = [0x11; 32];

/// The SHA-256 of a block's pickle, in hexadecimal, and its length.
fn pickled<T: TokenId>(tagged: bool, shared_identifiers: bool, tokens: &[T], keys: &Keys<'_>) -> String {
    let mut out = vec![9; 9];
    let mut pickle = Pickle::new(&mut out);
    encode::block(&mut pickle, KeyForm { tagged, shared_identifiers }, &PARENT, tokens, keys);
    pickle.finish();
    sha256(&out)
}

fn sha256(bytes: &[u8]) -> String {
    BlockDigest::from(<[u8; 32]>::from(Sha256::digest(bytes))).to_string()
}

fn tokens(count: u32) -> Vec<u32> {
    (100_000..100_000 + count).collect()
}

#[test]
fn integers_of_every_size_are_as_python_writes_them() {
    let power = |exponent: u32| 1_i128 << exponent;
    let mut ints = vec![power(31) - 1, power(31), power(31) + 1, power(32) - 1, power(32), power(39) - 1, power(39)];
    ints.extend([power(63) - 1, power(63), power(64) - 1, power(64), i128::MAX, -1, -128, -129, -power(15)]);
    ints.extend([-power(31), -power(31) - 1, -power(32), -power(39), -power(39) - 1, -power(63), -power(63) - 1]);
    ints.push(i128::MIN);
    let digest = "504fe4c47e05ef61ff2297cc1ac37b090c79b6b9e6d344649acf6fd2380e96ca";
    assert_eq!(pickled(false, false, &ints, &Keys::default()), digest);
}

#[test]
fn a_frame_is_closed_by_the_first_object_that_finds_it_full() {
    for (count, digest) in [
        (13_095, "26bc2d7feff165463897cd3bfd429e3d6e1f0fc8ca1d56ee8e389f335bd057d7"),
        (13_098, "627cdbd96508370a4b301ecc19b03ebb92a42ee37eaae9fbd44009b10b6a160b"),
        (13_099, "f804fb968343a63626fa22f2783e39cf7a8b6662c57d93a39286738e22e616b3"),
        (13_100, "a52a96b1171257dd117652d0418a2b60003cbdc4904aceeaa573e451f941433f"),
        (13_101, "f7085540ec7850794146dfcef6caf31a3677c1da035fb1846f5f9c4e9a117175"),
        (26_213, "253f28db160367c97ccbfcf8b9ce01fccd09a1f435cd1751d87ffb4be6d365b3"),
        (40_000, "57a93b424f7efe3ae7782aa8947af38d1e62bfabc4b5ce2cf7f4439471774a7b"),
    ] {
        assert_eq!(pickled(false, false, &tokens(count), &Keys::default()), digest, "{count} tokens");
    }
    let adapter = Some(AdapterKey { name: "ad", path: "/x" });
    let media = [("idididid", -7)].into_iter().collect();
    let keys = Keys { adapter, media, salt: Some("s1"), embeds: Some([0x22; 32]) };
    let tagged = "fc58f26d60284412df3764ecd6f1e4b26f0b20ab74976e2acdcf012c7327b567";
    assert_eq!(pickled(true, false, &tokens(13_100), &keys), tagged);
    let bare = "e99f0ec0549550fd4b6f5656845ef61e73af17b751bc7146eaa345d4da02f76d";
    assert_eq!(pickled(false, false, &tokens(13_100), &keys), bare);
}

#[test]
fn a_text_that_would_fill_a_frame_stands_between_frames() {
    for (length, salted, adapted) in [
        (
            255,
            "d215a329c1608470a8145653d3f373f54a012cc12694e7ae1fc04fb5828abf2e",
            "28ef9406ad0648af98dbde60aea5be744958ac966c966f00b0d442c9fa9305a1",
        ),
        (
            256,
            "a7b6dd40736456a5c2c9de0879095a1717214861c6bee3282dd9f61f26028321",
            "c54cee63ad3483fcdbc2f2967bd5d6556ba412c43389ea36fc8915185399523d",
        ),
        (
            65_535,
            "de2ef3da7e9d1fdf28dac412681e3ba8de4f50949075cbc6d52376f43471e69c",
            "b3370259bf2c5756d74a7faabdcfe00079d92092f7eda7b71c68b06dfab676a3",
        ),
        (
            65_536,
            "d70f1404d59819d64271c0628e8e63152e3605349d661a33af2867513ed57a30",
            "634a53e372d81966d9e8584b59409634364ce3e8e00d75cc3d7d16f55838df4e",
        ),
        (
            70_000,
            "df4d82fb4caf0346bb76f6999a0cb476d9937667537c903fde8aae7600047d18",
            "a464fa7f7c4c991048522cf86cae84f70b122b5a61843ee1f3fce8c3a95608b5",
        ),
    ] {
        let salt = "x".repeat(length);
        let keys = Keys { salt: Some(&salt), ..Keys::default() };
        assert_eq!(pickled(false, false, &[1, 2, 3, 4], &keys), salted, "{length}");
        let (name, salt) = ("n".repeat(length), "s".repeat(length));
        let adapter = Some(AdapterKey { name: &name, path: "/p" });
        let keys = Keys { adapter, salt: Some(&salt), ..Keys::default() };
        assert_eq!(pickled(true, false, &[1, 2, 3, 4], &keys), adapted, "{length}");
    }
}

#[test]
fn a_short_rest_gets_no_frame() {
    for (length, digest) in [
        (65_535, "d949de5f5d6b0a3eb34fdaf5d08649c7a4ee6412182280fd10eb12faab8d4f15"),
        (65_536, "66de43057ae2cca03b773f1a0909349f2931768095f9e949c279f5a7c7845d18"),
    ] {
        let mut out = Vec::new();
        let mut pickle = Pickle::new(&mut out);
        pickle.text(&"z".repeat(length));
        pickle.finish();
        assert_eq!(sha256(&out), digest, "{length}");
    }
}

#[test]
fn what_is_one_object_is_written_once() {
    for (count, tagged, shared, digest) in [
        (2, false, false, "f00711907547c6b517a2f83bb2e2f5704d6bc4b9aed33b1e47ddad03d8cd7e68"),
        (2, false, true, "a483b9351f91b349c8a29a548b36fe70a0cb29419764d884005268f6b7a988cd"),
        (2, true, false, "e653bc605d29047339d9460350b007d713da99b28ab731fbbde15bba8f4e6d42"),
        (2, true, true, "e9622ee68c95760ee07d9d316681f1984a7f440e661607a3d39f624e08e14c31"),
        (4, false, true, "8057e4543fef5a68d7acb4c267bc3cb32177ab6a874e5d986dfd725ae2b826ff"),
        (4, true, false, "636c8db5c4115bbb04dd71d902989ffa5ce8ebe868e37fccacec25021accd78a"),
        (9_000, false, false, "5cdd72c32acc7debe34c93cf78c27e328be1905b1875de1ccca8f7cdd70fd9f0"),
        (9_000, true, true, "f4573673800d24805015d75bc3a9cf3257c8b930958ff0a698a23379b171d421"),
    ] {
        let media = (0..count).map(|at| ("iiiiiiii", at - 3)).collect();
        let keys = Keys { media, ..Keys::default() };
        assert_eq!(pickled(tagged, shared, &[1, 2, 3, 4], &keys), digest, "{count} {tagged} {shared}");
    }
}

#[test]
fn objects_past_the_first_256_are_referred_to_by_long_numbers() {
    let names: Vec<_> = (0..200).map(|at| format!("item{at:04}")).collect();
    let items = names.iter().map(String::as_str).chain(["zzzzzzzz", "zzzzzzzz"]);
    let keys = Keys { media: items.zip(0..).collect(), ..Keys::default() };
    let bare = "efc980baf15c6b1d9da84960367771ced6b02daf4cef77220f2b7bc8afe7214a";
    assert_eq!(pickled(false, true, &[1, 2, 3, 4], &keys), bare);
    let tagged = "f4e730a681bb7ef2c513b0680135b98a96938b057dcb3ba5c07c7a54b8fbc277";
    assert_eq!(pickled(true, true, &[1, 2, 3, 4], &keys), tagged);
}
