#!/usr/bin/env bash
# Makes the certificates that tests use, valid for 100 years: an authority, a server's for localhost and
# 127.0.0.1, a client's, and an authority that nobody knows. The keys protect nothing.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
authority() { # file, name
  key "$work/$1.key"
  openssl req -x509 -new -key "$work/$1.key" -days 36500 -subj "/CN=$2" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out "$1.pem"
}
signed() { # file, subject alternative name
  key "$1-key.pem"
  printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$2" >"$work/extensions"
  openssl req -new -key "$1-key.pem" -subj "/CN=$1" -out "$work/request"
  openssl x509 -req -in "$work/request" -CA ca.pem -CAkey "$work/ca.key" -days 36500 \
    -extfile "$work/extensions" -out "$1.pem" 2>/dev/null
}
authority ca "libwitrpc test authority"
authority stranger "an authority that nobody knows"
signed server DNS:localhost,IP:127.0.0.1
signed client DNS:client
# For --pin and witrpc_client_options_tls_pin.
openssl x509 -in server.pem -outform der | sha256sum | cut -d' ' -f1 >server.sha256
