"""Charts as PNG, drawn with Pillow: nothing here decides what a chart shows, and Pillow is loaded with the first one."""

from bot.adapters.charts.painter import PillowCharts as PillowCharts  # re-exported: what others need
