package rabbit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

func TestAPIAsksABusyNodeAgain(t *testing.T) {
	answers := []struct {
		status int
		body   string
	}{
		{http.StatusInternalServerError, ""},
		{http.StatusBadRequest, `{"error":"bad_request","reason":"Cannot declare quorum queue 'q': cluster_not_formed"}`},
		{http.StatusBadRequest, `{"error":"bad_request","reason":"inequivalent arg"}`},
		{http.StatusCreated, ""},
	}
	asked := 0
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			t.Errorf("request %d has no body", asked)
		}
		w.WriteHeader(answers[asked].status)
		_, _ = w.Write([]byte(answers[asked].body))
		asked++
	}))
	defer node.Close()
	api, err := (&Broker{Endpoint: node.URL}).API()
	if err != nil {
		t.Fatal(err)
	}
	declare := func() error {
		resp, err := api.DeclareQueue("/", "q", rabbithole.QueueSettings{})
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := declare(); err == nil || asked != 3 {
		t.Errorf("%v after %d requests, expected the third answer", err, asked)
	}
	if err := declare(); err != nil || asked != 4 {
		t.Errorf("%v after %d requests", err, asked)
	}
}
