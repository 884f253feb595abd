//! The outline of small files of every language, and of hostile ones.

use super::*;

/// One line per definition: range, kind, scope, name, signature, doc.
fn shape(language: Language, text: &str) -> String {
    let outline = outline(language, text).unwrap();
    let mut out: Vec<String> = outline.imports.iter().map(|i| format!("{} import {}", i.line, i.text)).collect();
    out.extend(outline.definitions.iter().map(|d| {
        let kind = format!("{:?}", d.kind).to_lowercase();
        let doc = d.doc.as_ref().map(|doc| format!(" // {doc}")).unwrap_or_default();
        format!("{}-{} {kind} [{}] {} = {}{doc}", d.line, d.end_line, d.scope, d.name, d.signature)
    }));
    out.join("\n")
}

#[test]
fn rust() {
    insta::assert_snapshot!(shape(Language::Rust, "
use std::fmt;

/// A point.
///
/// More.
#[derive(Debug)]
pub struct Point(pub i32, pub i32);

const ORIGIN: Point = Point(0, 0);

impl fmt::Display for Point {
    // Writes it.
    fn fmt(&self,
           f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn inner() {}
        Ok(())
    }
}

trait Shape { fn area(&self) -> f64; }
"), @r"
2 import use std::fmt;
8-8 struct [] Point = pub struct Point(pub i32, pub i32); // A point.
10-10 constant [] ORIGIN = const ORIGIN: Point
12-19 impl [] fmt::Display for Point = impl fmt::Display for Point
14-18 method [fmt::Display for Point] fmt = fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result // Writes it.
16-16 function [fmt::Display for Point::fmt] inner = fn inner()
21-21 trait [] Shape = trait Shape
21-21 method [Shape] area = fn area(&self) -> f64;
");
}

#[test]
fn python() {
    insta::assert_snapshot!(shape(Language::Python, r#"
import os
from a import (b,
               c)

@dataclass
class Cache(Base):
    """Keeps things.

    Long."""

    @property
    async def size(self) -> int:
        '''How many.'''
        return 1

def f(a, b=1): return a
"#), @r"
2 import import os
3 import from a import (b, c)
6-15 class [] Cache = @dataclass class Cache(Base) // Keeps things.
12-15 method [Cache] size = @property async def size(self) -> int // How many.
17-17 function [] f = def f(a, b=1)
");
}

#[test]
fn typescript() {
    insta::assert_snapshot!(shape(Language::TypeScript, "
import { a } from './a';
import type B from 'b';

/** Adds.
 * @param x one */
export const add = (x: number, y: number): number => {
  return x + y;
};
const limit = 3, twice = (x) => x * 2;
export default class Store<T> extends Base {
  private items: T[] = [];
  async get(id: string): Promise<T> { return this.items[0]; }
}
export interface Named { name: string; greet(): void }
type Id = string | number;
enum Color { Red }
function* gen() {}
"), @r"
2 import import { a } from './a';
3 import import type B from 'b';
7-9 function [] add = export const add = (x: number, y: number): number // Adds.
10-10 function [] twice = twice = (x)
11-14 class [] Store = export default class Store<T> extends Base
13-13 method [Store] get = async get(id: string): Promise<T>
15-15 interface [] Named = export interface Named
15-15 method [Named] greet = greet(): void
16-16 type [] Id = type Id = string | number;
17-17 enum [] Color = enum Color
18-18 function [] gen = function* gen()
");
}

#[test]
fn java() {
    insta::assert_snapshot!(shape(Language::Java, "
package a.b;
import java.util.List;
/** A user. */
public class User extends Base {
    @Override
    public String name(int x) { return null; }
    User() {}
    record Pair(int a, int b) {}
    enum Kind { A, B }
}
"), @r"
2 import package a.b;
3 import import java.util.List;
5-11 class [] User = public class User extends Base // A user.
6-7 method [User] name = @Override public String name(int x)
8-8 method [User] User = User()
9-9 class [User] Pair = record Pair(int a, int b)
10-10 enum [User] Kind = enum Kind
");
}

#[test]
fn go_and_c() {
    insta::assert_snapshot!(shape(Language::Go, "
package main
import (
\t\"fmt\"
)
// Server serves.
type Server struct { port int }
type (
\tA int
\tB string
)
const Max = 10
// Run runs.
func (s *Server) Run(ctx context.Context) error { return nil }
func main() {}
"), @r#"
2 import package main
3 import import ( "fmt" )
7-7 type [] Server = type Server struct { port int } // Server serves.
9-9 type [] A = A int
10-10 type [] B = B string
12-12 constant [] Max = const Max
14-14 method [] (s *Server).Run = func (s *Server) Run(ctx context.Context) error // Run runs.
15-15 function [] main = func main()
"#);
    insta::assert_snapshot!(shape(Language::C, "
#include <stdio.h>
#define MAX(a, b) ((a) > (b) ? (a) : (b))
struct point { int x; };
typedef struct { int y; } other;
/* Adds. */
static int add(struct point *p, int b) { return b; }
int *(*table(void))(int) { return 0; }
"), @r"
2 import #include <stdio.h>
3-3 macro [] MAX = #define MAX(a, b) ((a) > (b) ? (a) : (b))
4-4 struct [] point = struct point
5-5 type [] other = typedef struct { int y; } other;
7-7 function [] add = static int add(struct point *p, int b) // Adds.
8-8 function [] table = int *(*table(void))(int)
");
}

#[test]
fn ruby_bash_and_yaml() {
    insta::assert_snapshot!(shape(Language::Ruby, "
require 'set'
module A
  # A user.
  class User < Base
    def name(x) = 1
    def self.find(id)
      id
    end
  end
end
"), @r"
2 import require 'set'
3-11 module [] A = module A # A user.
5-10 class [A] User = class User < Base // A user.
6-6 method [A::User] name = def name(x)
7-9 method [A::User] find = def self.find(id)
");
    insta::assert_snapshot!(shape(Language::Bash, "
# Says hello.
hello() {
  echo hi
}
function bye { echo bye; }
"), @r"
3-5 function [] hello = hello() // Says hello.
6-6 function [] bye = function bye
");
    insta::assert_snapshot!(shape(Language::Yaml, "
on: push
jobs:
  build:
    runs-on: x
    steps:
      - run: y
"), @r"
2-2 key [] on = on: push
3-7 key [] jobs = jobs
4-7 key [jobs] build = build
5-5 key [jobs.build] runs-on = runs-on: x
6-7 key [jobs.build] steps = steps
");
}

#[test]
fn the_innermost_definition_encloses_a_line() {
    let text = "class A:\n    def f(self):\n        x = 1\n        return x\n\ny = 2\n";
    let outline = outline(Language::Python, text).unwrap();
    let name = |line| enclosing(&outline, line).map(|d| d.name.as_str());
    assert_eq!((name(3), name(1), name(6), name(0), name(u32::MAX)), (Some("f"), Some("A"), None, None, None));
}

#[test]
fn huge_and_broken_files_are_bounded() {
    let many = "def f(): pass\n".repeat(MAX_DEFINITIONS + 10);
    let cut = outline(Language::Python, &many).unwrap();
    assert_eq!((cut.definitions.len(), cut.cut), (MAX_DEFINITIONS, true));
    assert!(cut.compact().contains("left out"));
    let long = format!("def f({}): pass", "argument, ".repeat(5_000));
    let clipped = outline(Language::Python, &long).unwrap();
    assert!(clipped.compact().chars().count() < 300);
    for language in Language::ALL {
        let broken = "class {{{ def func fn impl (((  => struct \u{301}\r interface";
        let _ = outline(language, broken).map(|outline| outline.compact());
    }
}
