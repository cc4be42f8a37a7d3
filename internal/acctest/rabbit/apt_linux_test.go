package rabbit

import (
	"reflect"
	"testing"
)

func TestParseAptList(t *testing.T) {
	got := parseAptList(`# comment
deb http://mirror.example/debian bookworm main contrib
deb-src http://mirror.example/debian bookworm main
deb [ arch=amd64 signed-by=/usr/share/keyrings/a.gpg ] https://other.example/debian stable main # why
  deb	[arch=arm64]http://third.example/ sid main
deb broken
`)
	want := []aptEntry{
		{uris: []string{"http://mirror.example/debian"}, suites: []string{"bookworm"}},
		{uris: []string{"https://other.example/debian"}, suites: []string{"stable"}},
		{uris: []string{"http://third.example/"}, suites: []string{"sid"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseAptSources(t *testing.T) {
	got := parseAptSources(`# The archive
Types: deb deb-src
# a comment between fields
URIs: http://mirror.example/debian
 http://second.example/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://disabled.example/debian
Suites: bookworm
Enabled: no

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm


types: deb
uris:   http://security.example/debian-security
suites: bookworm-security`)
	want := []aptEntry{
		{
			uris:   []string{"http://mirror.example/debian", "http://second.example/debian"},
			suites: []string{"bookworm", "bookworm-updates"},
		},
		{uris: []string{"http://security.example/debian-security"}, suites: []string{"bookworm-security"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestPickMirror(t *testing.T) {
	lists := map[string][]string{
		"/etc/apt/mirrors/debian.list": {"https://listed.example/debian/"},
	}
	readList := func(path string) []string { return lists[path] }
	one := func(suite string, uris ...string) []aptEntry { return []aptEntry{{uris, []string{suite}}} }
	const mirror, listed = "http://mirror.example/debian", "https://listed.example/debian"
	for name, test := range map[string]struct {
		entries []aptEntry
		want    string // "" is an error
	}{
		"the machine's own release": {
			[]aptEntry{
				{[]string{"http://tools.example/apt"}, []string{"nodistro"}},
				{[]string{"http://security.example/debian-security"}, []string{"bookworm-security"}},
				{[]string{mirror + "/"}, []string{"bookworm", "bookworm-updates"}},
			},
			mirror,
		},
		"a release by its class":       {one("unstable", mirror), mirror},
		"not from a disc":              {one("bookworm", "cdrom:[Debian]/", mirror), mirror},
		"a list of mirrors":            {one("bookworm", "mirror+file:/etc/apt/mirrors/debian.list"), listed},
		"a list with three slashes":    {one("stable", "mirror+file:///etc/apt/mirrors/debian.list"), listed},
		"a list that is not there":     {one("bookworm", "mirror+file:///nowhere"), ""},
		"only archives of other makes": {one("nodistro", "http://tools.example/apt"), ""},
		"no entries":                   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pickMirror(test.entries, "bookworm", readList)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
