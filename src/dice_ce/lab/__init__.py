"""What only makers need: the simulator, composed exams, training and tuning."""
