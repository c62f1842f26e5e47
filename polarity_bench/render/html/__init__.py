"""HTML pages. `assets` has their templates, styles and scripts, each named as its page.

- `page`: the page of a board. `page.js` also sets the colours, sizes and legends of its figures.
- `explorer` and `dial`: the pages of `polarity-bench explain`, which `explain` fills with data.
- `shared`: styles and scripts of both of them.
"""
