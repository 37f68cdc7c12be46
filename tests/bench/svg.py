"""A line chart as SVG: curves over time with axes, units and a legend. Colours tell apart without red and green."""

import math
from html import escape

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP, BOTTOM = 90, 24, 56, 64
COLOURS = ("#000000", "#e69f00", "#0072b2", "#cc79a7")
TICKS = 9


def step_of(largest):
    """A round distance between ticks, about TICKS of them up to `largest`."""
    raw = largest / TICKS
    power = 10 ** math.floor(math.log10(raw))
    return next(times * power for times in (1, 2, 2.5, 5, 10) if times * power >= raw)


def ticks(largest):
    step = step_of(largest)
    return [number * step for number in range(math.floor(largest / step + 1e-9) + 1)]


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


class Plane:
    """Where a value is on the picture."""

    def __init__(self, x_most, y_most):
        self.x_most, self.y_most = x_most, y_most

    def x(self, value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.x_most

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.y_most


def axes(plane, x_title, y_title):
    bottom, right = plane.y(0), plane.x(plane.x_most)
    for value in ticks(plane.x_most):
        yield line(plane.x(value), bottom, plane.x(value), bottom + 5, "#444")
        yield text(plane.x(value), bottom + 20, f"{value:g}")
    for value in ticks(plane.y_most):
        yield line(LEFT, plane.y(value), right, plane.y(value), "#444" if value == 0 else "#ddd")
        yield text(LEFT - 8, plane.y(value) + 4, f"{value:,.0f}", "end")
    yield line(LEFT, TOP, LEFT, bottom, "#444")
    yield text((LEFT + right) / 2, HEIGHT - 20, x_title)
    middle = (TOP + bottom) / 2
    yield text(20, middle, y_title, more=f' transform="rotate(-90 20 {middle:.1f})"')


def chart(title, x_title, y_title, curves):
    """The picture's text. `curves`: {name: [(x, y), ...]}, at least one with a point beyond 0."""
    points = [point for curve in curves.values() for point in curve]
    plane = Plane(max(x for x, _ in points), 1.08 * max(y for _, y in points))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
             f'height="{HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
             text(LEFT, 22, title, "start", ' font-size="16"'), *axes(plane, x_title, y_title)]
    for number, ((name, curve), colour) in enumerate(zip(curves.items(), COLOURS)):
        path = " ".join(f"{plane.x(x):.1f},{plane.y(y):.1f}" for x, y in curve)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x = LEFT + 190 * number
        parts += [line(x, 41, x + 28, 41, colour, 3), text(x + 34, 45, name, "start")]
    return "\n".join([*parts, "</svg>"]) + "\n"
