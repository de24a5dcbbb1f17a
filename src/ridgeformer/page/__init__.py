"""The page: one HTML file with all results and models in it, made from result records; it never trains."""

from ridgeformer.page.build import write_page

__all__ = ["write_page"]
