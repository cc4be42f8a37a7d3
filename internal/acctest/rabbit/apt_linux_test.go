package rabbit

import (
	"slices"
	"testing"
)

func TestReadSources(t *testing.T) {
	got := readSources("bookworm http://mirror.example/debian/\nbookworm-updates cdrom:[Debian 12]/\n\nbroken\n")
	want := []aptSource{{"bookworm", "http://mirror.example/debian/"}, {"bookworm-updates", "cdrom:[Debian 12]/"}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestPickMirror(t *testing.T) {
	lists := map[string][]string{
		"/etc/apt/mirrors/debian.list": {"https://listed.example/debian/"},
	}
	readList := func(path string) []string { return lists[path] }
	one := func(release string, uris ...string) (sources []aptSource) {
		for _, uri := range uris {
			sources = append(sources, aptSource{release, uri})
		}
		return sources
	}
	const mirror, listed = "http://mirror.example/debian", "https://listed.example/debian"
	for name, test := range map[string]struct {
		sources []aptSource
		want    string // "" is an error
	}{
		"the machine's own release": {
			[]aptSource{
				{"nodistro", "http://tools.example/apt"},
				{"bookworm-security", "http://security.example/debian-security"},
				{"bookworm", mirror + "/"},
				{"bookworm-updates", mirror + "/"},
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
			got, err := pickMirror(test.sources, "bookworm", readList)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
