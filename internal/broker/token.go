package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// token is an OAuth 2 bearer token, nil with user and password. RabbitMQ takes it as a
// bearer over HTTP and as the password over AMQP, whatever the user name
// (rabbit_auth_backend_oauth2, 3.10 to 4.3).
type token struct {
	text string
	// expires is zero unless the token is a JWT that says it.
	expires time.Time
	// user is the token's user as the broker names it, nil until it was asked.
	user atomic.Pointer[string]
}

func newToken(text string) *token {
	if text == "" {
		return nil
	}
	return &token{text: text, expires: expiry(text)}
}

// expiry reads the claim exp (RFC 7519 section 4.1.4) without checking the signature: it
// only explains refusals, which come without a reason over HTTP.
func expiry(text string) time.Time {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}

// checkToken never repeats the token.
func (cfg Config) checkToken() error {
	switch {
	case cfg.Username != "" || cfg.Password != "":
		return wrong("Token", "a token stands in for user name and password: set either a token, or both of them")
	case strings.HasPrefix(strings.ToLower(cfg.Token), "bearer "):
		return wrong("Token", `the token begins with "Bearer ": give the token alone`)
	case strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return wrong("Token", "the token holds a space, a line break or another character that no token has")
	}
	return nil
}

// Username returns the name of the user that makes the requests. With a token it is the
// one that the broker gives it, "" until the broker was asked.
func (c *Client) Username() string {
	if c.token == nil {
		return c.username
	}
	if name := c.token.user.Load(); name != nil {
		return *name
	}
	return ""
}

// UsesToken says whether a token stands in for user name and password.
func (c *Client) UsesToken() bool { return c.token != nil }

// login returns the user name and the password of AMQP connections. RabbitMQ compares the
// name with the user_id of messages, so with a token the broker is asked for it.
func (c *Client) login(ctx context.Context) (username, password string, err error) {
	if c.token == nil {
		return c.username, c.password, nil
	}
	if c.token.user.Load() == nil {
		if _, err := c.whoami(ctx); err != nil {
			return "", "", err
		}
	}
	return c.Username(), c.token.text, nil
}

// refusal is the error for a user, or a token, that the broker does not let in.
func (c *Client) refusal(endpoint, reason string) *CredentialsError {
	e := &CredentialsError{Endpoint: endpoint, Username: c.Username(), Reason: reason, Token: c.token != nil}
	if c.token != nil {
		e.Expired = c.token.expired(reason)
	}
	return e
}

// expired says when the token expired, "" if it has not as far as is known.
func (t *token) expired(reason string) string {
	switch {
	case !t.expires.IsZero() && time.Now().After(t.expires):
		return "expired at " + t.expires.UTC().Format(time.RFC3339)
	case saysExpired(reason):
		return "has expired"
	default:
		return ""
	}
}

// saysExpired says whether RabbitMQ gives the end of a token as the reason, which it does
// over AMQP only: "Provided JWT token has expired at timestamp …" as the error of a channel
// (3.10, 4.0), "CONNECTION_FORCED - credential expired" as that of the connection (4.3).
func saysExpired(reason string) bool {
	return strings.Contains(reason, "token has expired") || strings.Contains(reason, "credential expired")
}

// unlessExpired returns the error of an AMQP session, or a [CredentialsError] if it comes
// from a token that has expired. That of a connection which 4.3 ended may have no reason
// anymore; our clock decides then, and a new connection would be refused anyhow.
func (c *Client) unlessExpired(endpoint string, err error) error {
	switch {
	case c.token == nil, err == nil, is[*CredentialsError](err):
		return err
	case saysExpired(err.Error()), errors.Is(err, messages.ErrCut) && c.token.expired("") != "":
		return c.refusal(endpoint, err.Error())
	default:
		return err
	}
}

// tokenProblem says why a token is refused, and what to do.
func (e *CredentialsError) tokenProblem() string {
	switch {
	case e.Expired != "":
		return fmt.Sprintf("RabbitMQ at %s refuses the token: it %s; get a new one and apply again, and the next run continues",
			e.Endpoint, e.Expired)
	case strings.Contains(strings.ToLower(e.Reason), "management"):
		return fmt.Sprintf("RabbitMQ at %s refuses the token: %s; add the scope %s, which admits it to the management API",
			e.Endpoint, e.Reason, tagScope("management"))
	default:
		return fmt.Sprintf("RabbitMQ at %s refuses the token: %s; check that the broker has the plugin rabbitmq_auth_backend_oauth2, "+
			"trusts the token's issuer, and is in its audience (the broker's log says what is wrong)", e.Endpoint, e.Reason)
	}
}

// tagScope is the scope that gives a token a tag.
func tagScope(tag string) string { return "<resource_server_id>.tag:" + tag }

// permissionsFrom ends "grant it …": how a user, or a token, gets permissions in a virtual
// host.
func permissionsFrom(vhost, user string, token bool) string {
	if token {
		return fmt.Sprintf("with scopes of the token such as <resource_server_id>.configure:%s/*/*, .write:%[1]s/*/* and .read:%[1]s/*/*",
			scopePart(vhost))
	}
	return "with: " + grantCommand(vhost, user)
}

// tagFrom ends "grant it …": how a user, or a token, gets a tag.
func tagFrom(tag, user string, token bool) string {
	if token {
		return "with the scope " + tagScope(tag) + " of the token"
	}
	return "with: " + tagCommand(user, tag)
}

// scopePart writes a name as a scope does: "/" and what else has a meaning there is
// percent-encoded.
func scopePart(name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F", "*", "%2A").Replace(name)
}
