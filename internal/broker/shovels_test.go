package broker

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestShovels reads the dynamic shovels of a virtual host. That the user may not see
// them, or that a gateway hides them, is reported and is not an error.
func TestShovels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status  int
		body    string
		want    []Shovel
		unknown string
	}{
		"shovels": {
			http.StatusOK,
			`[{"name":"a","vhost":"/","component":"shovel","value":{"ack-mode":"no-ack","src-uri":"amqp://user:secret@host"}},{"name":"b","value":{"src-queue":"q"}}]`,
			[]Shovel{{"a", "no-ack"}, {"b", "on-confirm"}},
			"",
		},
		"none":        {http.StatusOK, "[]", nil, ""},
		"no tag":      {http.StatusUnauthorized, `{"error":"not_authorised","reason":"User not authorised to access object"}`, nil, "policymaker"},
		"not offered": {http.StatusNotFound, `{"error":"Object Not Found","reason":"Not Found"}`, nil, "does not list"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.EscapedPath() {
			case "/api/parameters/shovel/%2F":
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			case "/api/whoami":
				_, _ = w.Write([]byte(`{"name":"guest","tags":["management"]}`))
			case "/api/vhosts/%2F", "/api/vhosts":
				_, _ = w.Write([]byte(`[{"name":"/"}]`))
			default:
				_, _ = w.Write([]byte(`[]`))
			}
		}))
		c, err := New(Config{Endpoint: server.URL, Username: "guest", Password: "guest"})
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.Shovels(t.Context(), "/")
		server.Close()
		if err != nil || !slices.Equal(found.List, test.want) || !strings.Contains(found.Unknown, test.unknown) || (found.Unknown == "") != (test.unknown == "") {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}
