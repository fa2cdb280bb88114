"""`compare --html`: a quantized network on one page.

facts     what is known of each node: kernel, errors, time, sizes
drawing   the graph as layers of boxes, and curves over the nodes
page      the page: `page.html.jinja` is its template, `page.css` its style
"""
