//! Envelopes and payload models against the bytes of a real WitRPC 3 peer, both ways, and against
//! every way of damaging those bytes.

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;
use witrpc::wire::{
    AuthorizationRequest, AuthorizationResponse, DecodeError, Envelope, InitializationRequest,
    InitializationResponse, Kind, ParameterType, Request, Response,
};

fn rows() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/models.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn text(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.as_str().unwrap().to_owned())
}

fn blob(value: &Value) -> Option<Bytes> {
    text(value).map(|hex| unhex(&hex).into())
}

fn int(value: &Value) -> i32 {
    value.as_i64().unwrap().try_into().unwrap()
}

fn guid(value: &Value) -> Uuid {
    value.as_str().unwrap().parse().unwrap()
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> Option<T>) -> Option<Vec<Option<T>>> {
    value
        .as_array()
        .map(|items| items.iter().map(item).collect())
}

fn parameter_type(value: &Value) -> Option<ParameterType> {
    value.is_object().then(|| ParameterType {
        name: text(&value["Type"]),
        assembly: text(&value["Assembly"]),
    })
}

/// Any of the models, so that one check serves all of them.
#[derive(Debug, PartialEq)]
enum Model {
    Message(Envelope),
    InitializationRequest(InitializationRequest),
    InitializationResponse(InitializationResponse),
    AuthorizationRequest(AuthorizationRequest),
    AuthorizationResponse(AuthorizationResponse),
    Request(Request),
    Response(Response),
}

impl Model {
    fn from_fields(model: &str, f: &Value) -> Self {
        match model {
            "WitMessage" => Self::Message(Envelope {
                id: guid(&f["Id"]),
                kind: Kind(int(&f["Type"])),
                data: blob(&f["Data"]),
            }),
            "WitRequestInitialization" => Self::InitializationRequest(InitializationRequest {
                public_key: blob(&f["PublicKey"]).map(Into::into),
                protocol_version: int(&f["ProtocolVersion"]),
                extension: None,
            }),
            "WitResponseInitialization" => Self::InitializationResponse(InitializationResponse {
                symmetric_key: blob(&f["SymmetricKey"]).map(Into::into),
                vector: blob(&f["Vector"]).map(Into::into),
                protocol_version: int(&f["ProtocolVersion"]),
                error_message: text(&f["ErrorMessage"]),
                extension: None,
            }),
            "WitRequestAuthorization" => Self::AuthorizationRequest(AuthorizationRequest {
                token: text(&f["Token"]),
                extension: None,
            }),
            "WitResponseAuthorization" => Self::AuthorizationResponse(AuthorizationResponse {
                is_authorized: f["IsAuthorized"].as_bool().unwrap(),
                message: text(&f["Message"]),
                extension: None,
            }),
            "WitRequest" => Self::Request(Request {
                token: text(&f["Token"]),
                method_name: text(&f["MethodName"]),
                parameters: list(&f["Parameters"], blob),
                parameter_types: list(&f["ParameterTypes"], text),
                parameter_types_by_name: list(&f["ParameterTypesByName"], parameter_type),
                generic_arguments: list(&f["GenericArguments"], text),
                generic_arguments_by_name: list(&f["GenericArgumentsByName"], parameter_type),
                invocation_id: guid(&f["InvocationId"]),
                contract_id: f["ContractId"].as_i64().unwrap(),
                method_id: f["MethodId"].as_i64().unwrap(),
                extension: None,
            }),
            "WitResponse" => Self::Response(Response {
                status: int(&f["Status"]),
                data: blob(&f["Data"]),
                error_message: text(&f["ErrorMessage"]),
                error_details: text(&f["ErrorDetails"]),
                extension: None,
            }),
            other => panic!("no model {other}"),
        }
    }

    fn decode(model: &str, bytes: &Bytes) -> Result<Option<Self>, DecodeError> {
        Ok(match model {
            "WitMessage" => Envelope::decode(bytes)?.map(Self::Message),
            "WitRequestInitialization" => {
                InitializationRequest::decode(bytes)?.map(Self::InitializationRequest)
            }
            "WitResponseInitialization" => {
                InitializationResponse::decode(bytes)?.map(Self::InitializationResponse)
            }
            "WitRequestAuthorization" => {
                AuthorizationRequest::decode(bytes)?.map(Self::AuthorizationRequest)
            }
            "WitResponseAuthorization" => {
                AuthorizationResponse::decode(bytes)?.map(Self::AuthorizationResponse)
            }
            "WitRequest" => Request::decode(bytes)?.map(Self::Request),
            "WitResponse" => Response::decode(bytes)?.map(Self::Response),
            other => panic!("no model {other}"),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Message(m) => m.encode(&mut out),
            Self::InitializationRequest(m) => m.encode(&mut out),
            Self::InitializationResponse(m) => m.encode(&mut out),
            Self::AuthorizationRequest(m) => m.encode(&mut out),
            Self::AuthorizationResponse(m) => m.encode(&mut out),
            Self::Request(m) => m.encode(&mut out),
            Self::Response(m) => m.encode(&mut out),
        }
        out
    }

    fn set_extension(&mut self, bytes: &'static [u8]) {
        match self {
            Self::Message(_) => {}
            Self::InitializationRequest(m) => m.extension = Some(bytes.to_vec()),
            Self::InitializationResponse(m) => m.extension = Some(bytes.to_vec()),
            Self::AuthorizationRequest(m) => m.extension = Some(bytes.into()),
            Self::AuthorizationResponse(m) => m.extension = Some(bytes.into()),
            Self::Request(m) => m.extension = Some(bytes.into()),
            Self::Response(m) => m.extension = Some(bytes.into()),
        }
    }
}

#[test]
fn every_model_decodes_to_its_fields_and_encodes_to_the_same_bytes() {
    let rows = rows();
    assert!(rows.len() >= 175);
    for row in &rows {
        let name = row["model"].as_str().unwrap();
        let bytes: Bytes = unhex(row["hex"].as_str().unwrap()).into();
        let expected = Model::from_fields(name, &row["fields"]);
        assert_eq!(
            Model::decode(name, &bytes).unwrap().as_ref(),
            Some(&expected),
            "{row}"
        );
        assert_eq!(expected.encode(), bytes, "{row}");
    }
}

#[test]
fn an_extension_survives_and_leaves_the_rest_as_it_was() {
    for row in &rows() {
        let name = row["model"].as_str().unwrap();
        let mut model = Model::from_fields(name, &row["fields"]);
        model.set_extension(b"anything at all");
        let bytes = model.encode().into();
        assert_eq!(Model::decode(name, &bytes).unwrap(), Some(model), "{row}");
    }
}

#[test]
fn cut_and_damaged_bytes_give_errors_or_values_and_never_a_panic() {
    let rows = rows();
    let models = [
        "WitMessage",
        "WitRequest",
        "WitResponse",
        "WitRequestInitialization",
    ];
    for row in &rows {
        let name = row["model"].as_str().unwrap();
        let bytes = unhex(row["hex"].as_str().unwrap());
        for cut in 0..bytes.len() {
            let result = Model::decode(name, &Bytes::copy_from_slice(&bytes[..cut]));
            assert!(result.is_err(), "{row} cut at {cut}: {result:?}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0x81, 0x82, 0xFA, 0xFF, bytes[at] ^ 0x10] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let damaged = Bytes::from(damaged);
                for other in models {
                    let _ = Model::decode(other, &damaged);
                }
                let _ = Model::decode(name, &damaged);
            }
        }
    }
}

#[test]
fn a_null_object_is_not_a_message() {
    let null = Bytes::from_static(&[255]);
    for name in [
        "WitMessage",
        "WitRequest",
        "WitResponse",
        "WitRequestAuthorization",
    ] {
        assert_eq!(Model::decode(name, &null).unwrap(), None);
    }
}

#[test]
fn missing_members_have_their_defaults() {
    // Seven members only, as an old client sends it: no InvocationId and no ids.
    let bytes = unhex(
        "0a040b0e0404040410080800000000fcffffff0300000041646402000000010000003201000000330000000000000000000000000000000033221100554477668899aabbccddeeffeae1aa5c9e6d22ca17080d453e577727",
    );
    let mut short = vec![7];
    short.extend_from_slice(&bytes[1..8]);
    short.extend_from_slice(&bytes[11..bytes.len() - 32]);
    let request = Request::decode(&short.into()).unwrap().unwrap();
    assert_eq!(request.method_name.as_deref(), Some("Add"));
    assert_eq!(request.parameters.unwrap().len(), 2);
    assert_eq!((request.invocation_id, request.method_id), (Uuid::nil(), 0));
    // A listed length of 0 means "absent".
    let absent: Bytes = unhex("0400000000").into();
    assert_eq!(
        Response::decode(&absent).unwrap(),
        Some(Response::default())
    );
}

#[test]
fn the_envelope_is_as_lenient_as_the_reference() {
    let id = "33221100554477668899aabbccddeeff";
    for (hex, kind, data) in [
        (format!("01{id}"), 0, None),
        (format!("02{id}01000000"), 1, None),
        (format!("03{id}03000000ffffffff99"), 3, None),
        (format!("03{id}030000000100000007"), 3, Some(&[7][..])),
    ] {
        let envelope = Envelope::decode(&unhex(&hex).into()).unwrap().unwrap();
        assert_eq!(envelope.kind, Kind(kind));
        assert_eq!(envelope.data.as_deref(), data);
    }
    assert!(Envelope::decode(&unhex(&format!("04{id}03000000ffffffffff")).into()).is_err());
}
