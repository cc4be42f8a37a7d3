// Package oauth signs OAuth 2 tokens for tests, and makes a broker accept them without an
// identity provider: the broker gets the public key in a file.
package oauth

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const (
	// Audience is the resource_server_id of the brokers, with which scopes begin.
	Audience = "rabbitmq"
	keyID    = "test"
	keyFile  = "oauth.pem"
)

// Full are the scopes of a user who may do everything in every virtual host. Without the
// third part a scope does not hold for the routing keys of topic exchanges.
var Full = []string{Audience + ".configure:*/*/*", Audience + ".write:*/*/*", Audience + ".read:*/*/*", Audience + ".tag:administrator"}

// Issuer signs tokens with a key of its own.
type Issuer struct {
	key    *rsa.PrivateKey
	public string
}

// New makes an issuer with a new key.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &Issuer{key: key, public: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

// Options adds to the options of a broker that it accepts the issuer's tokens besides the
// users of its own database.
func (i *Issuer) Options(o rabbit.Options) rabbit.Options {
	o.Plugins = append(o.Plugins, "rabbitmq_auth_backend_oauth2")
	o.Files = map[string]string{keyFile: i.public}
	o.ExtraConfig += "auth_backends.1 = internal\n" +
		"auth_backends.2 = rabbit_auth_backend_oauth2\n" +
		"auth_oauth2.resource_server_id = " + Audience + "\n" +
		"auth_oauth2.default_key = " + keyID + "\n" +
		"auth_oauth2.signing_keys." + keyID + " = {dir}/" + keyFile + "\n" +
		"auth_oauth2.algorithms.1 = RS256\n"
	return o
}

// Token signs a token (RFC 7519) for a user with scopes.
func (i *Issuer) Token(t testing.TB, user string, scopes []string, expires time.Time) string {
	t.Helper()
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := encode(map[string]any{"alg": "RS256", "typ": "JWT", "kid": keyID}) + "." +
		encode(map[string]any{"sub": user, "aud": Audience, "scope": scopes, "exp": expires.Unix()})
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
