//! `crypto.json`: what a .NET peer sealed and encrypted.

use bytes::BytesMut;
use serde::Deserialize;
use witrpc::security::{Channel, ClientKey, Keys, OVERHEAD, PublicKey, Role};

use crate::common::{hex, to_hex, unbase64, vector};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Crypto {
    symmetric_key: String,
    vector: String,
    client_to_server: Vec<Sealed>,
    server_to_client: Vec<Sealed>,
    rsa: Rsa,
}

#[derive(Deserialize)]
struct Sealed {
    plaintext: String,
    sealed: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rsa {
    public_key_message: String,
    private_key_message: String,
    private_key_pkcs8: String,
    oaep_sha256: Vec<Oaep>,
}

#[derive(Deserialize)]
struct Oaep {
    plaintext: String,
    ciphertext: String,
}

fn crypto() -> Crypto {
    serde_json::from_str(&vector("crypto.json")).unwrap()
}

#[test]
fn both_directions_are_sealed_as_the_peer_seals_and_open() {
    let crypto = crypto();
    let keys = Keys::from_bytes(&hex(&crypto.symmetric_key), &hex(&crypto.vector)).unwrap();
    for (sender, receiver, messages) in [
        (Role::Client, Role::Server, &crypto.client_to_server),
        (Role::Server, Role::Client, &crypto.server_to_client),
    ] {
        let mut sealer = Channel::new(&keys, sender).unwrap().sealer;
        let mut opener = Channel::new(&keys, receiver).unwrap().opener;
        assert_eq!(messages.len(), 5);
        for message in messages {
            let mut sealed = BytesMut::zeroed(OVERHEAD);
            sealed.extend_from_slice(&hex(&message.plaintext));
            sealer.seal(&mut sealed);
            assert_eq!(to_hex(&sealed), message.sealed);
            let opened = opener.open(hex(&message.sealed)[..].into()).unwrap();
            assert_eq!(to_hex(&opened), message.plaintext);
        }
    }
}

#[test]
fn what_the_peer_encrypted_for_a_key_opens_with_it() {
    let rsa = crypto().rsa;
    let key = ClientKey::from_pkcs8(&unbase64(&rsa.private_key_pkcs8)).unwrap();
    assert_eq!(rsa.oaep_sha256.len(), 3);
    for row in &rsa.oaep_sha256 {
        let opened = key.decrypt(&hex(&row.ciphertext)).unwrap();
        assert_eq!(to_hex(&opened), row.plaintext);
        // And back, under the key as the peer writes it.
        let public = PublicKey::read(rsa.public_key_message.as_bytes()).unwrap();
        let sealed = public.encrypt(&opened).unwrap();
        assert_eq!(*key.decrypt(&sealed).unwrap(), *opened);
    }
    // Ours begins as the peer's: with the same two members.
    let theirs = rsa.public_key_message.strip_suffix('}').unwrap();
    let ours = String::from_utf8(key.public_text().to_vec()).unwrap();
    assert!(ours.starts_with(theirs), "{ours}");
    // Nobody is to send this.
    let error = PublicKey::read(rsa.private_key_message.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("private key"), "{error}");
}
