//! TensorRT-LLM's refusals and both forms, case by case.

use super::*;
use crate::BlockSize;
use crate::engine::hash_error::PromptFeature;
use crate::engine::prompt::{Adapter, Media};
use crate::engine::{Dialect, DialectHasher};

const TOKENS: [u32; 8] = [1, 2, 3, 4, 70_000, 151_935, 0x7fff_ffff, 0];

fn hasher(form: TrtllmForm) -> DialectHasher {
    let dialect = Dialect::trtllm(TrtllmHashing::new(form).sha256_salts()).unwrap();
    DialectHasher::new(dialect, BlockSize::new(4).unwrap())
}

/// The expected values are of a second implementation of the same description, in Python.
#[test]
fn both_forms_are_as_described() {
    let plain = Prompt::new(&TOKENS);
    let adapter = Adapter::named("sql").id(7);
    for (prompt, first, second) in [
        (plain, [0x0003_488f_8809_6b5f_u64, 0x25d0_4a50_c543_affa], [0xe432_2285_22a3_04ab, 0x41d3_694c_f6f3_a9b4]),
        (
            plain.adapter(adapter),
            [0x1382_6ea6_75a5_e03b, 0xbf65_ff2c_e41e_43e7],
            [0x7e4a_d4f8_cb28_400c, 0xa7f0_7a9f_d4d1_7092],
        ),
        (
            plain.salt("tenant-42"),
            [0xd95c_90a4_c49b_e4af, 0x7170_3f5e_7db9_94be],
            [0xfd26_dc6c_0ba0_93f6, 0xb4a9_02f8_0985_9888],
        ),
        (
            plain.adapter(adapter).salt("tenant-42"),
            [0x7975_edda_b5f4_9917, 0x9a13_37c7_00db_7f37],
            [0x8826_d014_dc5f_63da, 0xd1e0_bbd7_f8d9_e566],
        ),
    ] {
        for (form, expected) in [(TrtllmForm::V1BlockKey, first), (TrtllmForm::V2Sha256, second)] {
            let got: Vec<_> = hasher(form).hash(&prompt).unwrap().iter().map(|hash| hash.get()).collect();
            assert_eq!(got, expected, "{form} {prompt:?}");
        }
    }
}

#[test]
fn only_the_second_form_has_a_root() {
    let prompt = Prompt::new(&TOKENS).adapter(Adapter::named("sql").id(7));
    assert_eq!(hasher(TrtllmForm::V1BlockKey).dialect().root(&prompt), None);
    assert!(hasher(TrtllmForm::V2Sha256).dialect().root(&prompt).is_some());
    let serialized = hasher(TrtllmForm::V2Sha256).preimages(&prompt).unwrap();
    assert_eq!(serialized.root, [1, 7, 0, 0, 0, 0, 0, 0, 0]);
    let serialized = hasher(TrtllmForm::V1BlockKey).preimages(&prompt).unwrap();
    assert!(serialized.root.is_empty() && serialized.blocks.iter().all(Vec::is_empty));
}

#[test]
fn what_cannot_be_computed_is_refused_when_hashing() {
    let plain = Prompt::new(&TOKENS);
    for form in [TrtllmForm::V1BlockKey, TrtllmForm::V2Sha256] {
        assert_eq!(hasher(form).hash(&plain.adapter(Adapter::named("sql"))), Err(HashError::AdapterId));
        let media = [Media { identifier: "a", offset: 0, length: 1 }];
        let error = HashError::NotComputable { engine: EngineKind::Trtllm, what: PromptFeature::Media };
        assert_eq!(hasher(form).hash(&plain.media(&media)), Err(error));
        let unsalted = Dialect::trtllm(TrtllmHashing::new(form)).unwrap();
        let unsalted = DialectHasher::new(unsalted, BlockSize::new(4).unwrap());
        assert_eq!(unsalted.hash(&plain.salt("s")), Err(HashError::SaltForm));
        assert!(unsalted.hash(&plain.salt("")).is_ok());
        let id = 1_i64 << 31;
        let got = hasher(form).hash(&Prompt::new(&[0, id, 2, 3]));
        assert_eq!(
            got,
            Err(HashError::Token { engine: EngineKind::Trtllm, id: id.into(), position: 1, most: 0x7fff_ffff })
        );
    }
}

#[test]
fn forms_are_read_as_events_name_them() {
    assert_eq!("v1_block_key".parse(), Ok(TrtllmForm::V1BlockKey));
    assert_eq!("v2_sha256_64".parse(), Ok(TrtllmForm::V2Sha256));
    assert!("auto".parse::<TrtllmForm>().is_err());
}
