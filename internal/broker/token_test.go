package broker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// jwt makes a token with the claims, and a signature that nobody checks here.
func jwt(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + ".c2lnbmF0dXJl"
}

// TestExpiryOfToken: what is not a JWT, or one without exp, has none that is known.
func TestExpiryOfToken(t *testing.T) {
	for text, want := range map[string]int64{
		jwt(`{"exp":1000000000}`):         1_000_000_000,
		jwt(`{"exp":1000000000.75}`):      1_000_000_000,
		jwt(`{"exp":1e9,"sub":"deploy"}`): 1_000_000_000,
		jwt(`{"sub":"deploy"}`):           0,
		jwt(`{"exp":"soon"}`):             0,
		jwt(`{"exp":-1}`):                 0,
		jwt(`[]`):                         0,
		"a.%%%.c":                         0,
		"opaque":                          0,
	} {
		got := expiry(text)
		if want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
			t.Errorf("%s expires at %v, expected %d", text, got, want)
		}
	}
}

// TestTokenThatIsNone: the errors are on the attribute and never repeat the token.
func TestTokenThatIsNone(t *testing.T) {
	const secret = "s3cr3t"
	for name, test := range map[string]struct {
		config Config
		field  string
		words  string
	}{
		"with a user":          {Config{Token: secret, Username: "u"}, "Token", "either a token, or both"},
		"with a password":      {Config{Token: secret, Password: "p"}, "Token", "either a token, or both"},
		"with a scheme":        {Config{Token: "Bearer " + secret}, "Token", `begins with "Bearer "`},
		"with a line break":    {Config{Token: secret + "\n" + secret}, "Token", "a line break"},
		"with an umlaut":       {Config{Token: secret + "ä"}, "Token", "another character"},
		"with a header of own": {Config{Token: secret, Headers: map[string]string{"authorization": "Basic x"}}, "Headers", "leave out one"},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Endpoint = "http://127.0.0.1:1"
			_, err := New(test.config)
			var wrong *ConfigError
			if !errors.As(err, &wrong) || wrong.Field != test.field || !strings.Contains(err.Error(), test.words) {
				t.Fatalf("the error is %v", err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// TestExpiredTokenIsTheCause: the broker says so, or it cut the connection and our clock says
// so. An error with a cause of its own keeps it.
func TestExpiredTokenIsTheCause(t *testing.T) {
	const rabbit310 = `ACCESS_REFUSED - access to queue 'a' in vhost '/' refused for user 'deploy', ` +
		`backend rabbit_auth_backend_oauth2 returned an error: ` +
		`"Provided JWT token has expired at timestamp 1795444790 (validated at 1795444791)"`
	hour := time.Now().Add(time.Hour).Unix()
	for name, test := range map[string]struct {
		token string
		err   error
		want  string
	}{
		"by our clock":      {jwt(`{"exp":1000000000}`), messages.ErrCut, "it expired at 2001-09-09T01:46:40Z; get a new one"},
		"by the broker's":   {jwt(fmt.Sprintf(`{"exp":%d}`, hour)), errors.New(rabbit310), "it has expired; get a new one"},
		"opaque":            {"opaque", errors.New("CONNECTION_FORCED - credential expired"), "it has expired; get a new one"},
		"still valid":       {jwt(fmt.Sprintf(`{"exp":%d}`, hour)), messages.ErrCut, ""},
		"another cause":     {jwt(`{"exp":1000000000}`), errors.New("access to queue 'orders.expired' refused"), ""},
		"user and password": {"", errors.New("credential expired"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{Endpoint: "http://127.0.0.1:1", Token: test.token}
			if test.token == "" {
				config.Username = "u"
			}
			client, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			err = client.unlessExpired("amqp://host:5672", test.err)
			if is[*CredentialsError](err) != (test.want != "") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
