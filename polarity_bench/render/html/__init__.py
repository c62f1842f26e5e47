"""HTML pages. `assets` has their templates, styles and scripts, each named as its page.

`page` is the page of a board; `page.js` has the colours and legends of its figures. `explorer` and
`dial` are the pages of `polarity-bench explain`, and both use `shared`.
"""
