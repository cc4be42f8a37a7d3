package abilities

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	inOrder := []string{"3.9", "3.10.8", "3.10.25", "3.13.0-beta.1", "3.13.0-rc.1", "3.13.0", "3.13.3", "4.0.5", "4.0.10", "4.3.0"}
	for i, older := range inOrder {
		for j, newer := range inOrder {
			v := MustParse(newer)
			if v.AtLeast(older) != (j >= i) {
				t.Errorf("%s at least %s: %v", newer, older, v.AtLeast(older))
			}
			if v.String() != newer {
				t.Errorf("%s became %s", newer, v)
			}
		}
	}
	for _, same := range []string{"4.0.5+debian", "4.0.5.1"} {
		if v := MustParse(same); !v.AtLeast("4.0.5") || v.AtLeast("4.0.6") {
			t.Error(same)
		}
	}
	for _, none := range []string{"", "4", "v4.0.5", "four", "4.0.5 ", "99999999999999999999.0"} {
		if v, err := Parse(none); err == nil {
			t.Errorf("%q became %v", none, v)
		}
	}
	if v := MustParse("4.3.0-rc.1"); v.AtLeast("4.3.0") || !v.Release().AtLeast("4.3.0") {
		t.Error("a pre-release counts as its release, or does not become it")
	}
	defer func() {
		if recover() == nil {
			t.Error("AtLeast takes a text that is not a version")
		}
	}()
	MustParse("4.0.0").AtLeast("new")
}

func TestReleases(t *testing.T) {
	for _, test := range []struct {
		in      Releases
		text    string
		yes, no []string
	}{
		{since("3.13.3"), "3.13.3 or later", []string{"3.13.3", "4.0.5"}, []string{"3.10.8", "3.13.3-rc.1"}},
		{before("4.3.0"), "before 4.3.0", []string{"3.10.8", "4.2.9", "4.3.0-rc.1"}, []string{"4.3.0", "4.3.6"}},
		{between("3.12.0", "3.12.2"), "3.12.0 or later, before 3.12.2", []string{"3.12.0", "3.12.1"}, []string{"3.11.28", "3.12.2"}},
		{
			before("3.13.0").or(between("3.13.3", "4.0.0")), "before 3.13.0; 3.13.3 or later, before 4.0.0",
			[]string{"3.10.8", "3.12.14", "3.13.3", "3.13.7"},
			[]string{"3.13.0", "3.13.2", "4.0.0"},
		},
	} {
		a := &Ability{In: test.in}
		for _, text := range test.yes {
			if !MustParse(text).Has(a) {
				t.Errorf("%s is not in %s", text, test.in)
			}
		}
		for _, text := range test.no {
			if MustParse(text).Has(a) {
				t.Errorf("%s is in %s", text, test.in)
			}
		}
		if test.in.String() != test.text {
			t.Errorf("%s, want %s", test.in, test.text)
		}
	}
}

func TestTableIsComplete(t *testing.T) {
	for i, a := range Table() {
		if len(a.In) == 0 || a.Does == "" || a.Source == "" {
			t.Errorf("row %d (%s) lacks a version, what RabbitMQ does, or its source", i, a.Does)
		}
	}
}

// TestOneFileComparesVersions: other files ask for an ability. Tests may compare versions,
// because what they expect must not come from the table, and so may their helpers.
func TestOneFileComparesVersions(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"abilities", "acctest", ".git"}, entry.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			checkNoComparison(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkNoComparison(t *testing.T, path string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range file.Imports {
		if strings.Contains(imported.Path.Value, "hashicorp/go-version") {
			t.Errorf("%s reads versions itself: ask internal/abilities", path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || !isAtLeast(call.Fun) || !slices.ContainsFunc(call.Args, isVersion) && len(call.Args) < 3 {
			return true
		}
		t.Errorf("%s compares versions: give the difference a row in internal/abilities", files.Position(call.Pos()))
		return true
	})
}

func isAtLeast(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.SelectorExpr:
		return strings.EqualFold(f.Sel.Name, "atLeast")
	case *ast.Ident:
		return strings.EqualFold(f.Name, "atLeast")
	default:
		return false
	}
}

// isVersion says whether the expression is a text such as "4.0.0".
func isVersion(e ast.Expr) bool {
	literal, is := e.(*ast.BasicLit)
	return is && literal.Kind == token.STRING && strings.Contains(literal.Value, ".")
}
