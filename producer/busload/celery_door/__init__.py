"""The parts behind `busload.celery_app`. Needs `pip install "busload[celery]"`."""
